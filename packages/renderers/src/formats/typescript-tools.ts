import type { ToolSpec } from '../messages.js'

type Schema = Readonly<Record<string, unknown>>

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** A value as a template prints it within text. */
const words = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
const strings = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : [])
const PRIMITIVES: Readonly<Record<string, string>> = { number: 'number', integer: 'number', boolean: 'boolean' }

/** What the published template puts before the type of a nested member; the models have seen it so. */
const NESTED = `\n${' '.repeat(16)}`

/** Tools as a TypeScript namespace, the way in which gpt-oss models are told of them. */
export function toolNamespace(name: string, tools: readonly ToolSpec[]): string {
  return `## ${name}\n\nnamespace ${name} {\n\n${tools.map(declaration).join('')}} // namespace ${name}`
}

function declaration({ name, description, parameters }: ToolSpec): string {
  const properties = isSchema(parameters['properties']) ? Object.entries(parameters['properties']) : []
  const head = `// ${description}\ntype ${name} = `
  if (properties.length === 0) return `${head}() => any;\n\n`
  const required = strings(parameters['required'])
  const members = properties.map(([key, value]) => `${member(key, isSchema(value) ? value : {}, required)},\n`)
  return `${head}(_: {\n${members.join('')}}) => any;\n\n`
}

function member(key: string, schema: Schema, required: readonly string[]): string {
  const comment = schema['description'] ? `// ${words(schema['description'])}\n` : ''
  const typed = `${comment}${key}${required.includes(key) ? '' : '?'}: ${typeOf(schema)}`
  if (schema['default'] === undefined) return typed
  if (schema['enum']) return `${typed}, // default: ${words(schema['default'])}`
  if (schema['oneOf']) return `${typed}// default: ${words(schema['default'])}`
  return `${typed}, // default: ${JSON.stringify(schema['default'])}`
}

/** The TypeScript type of a JSON schema, as far as the models have seen such types. */
function typeOf(schema: Schema): string {
  const { type } = schema
  const orNull = schema['nullable'] ? ' | null' : ''
  if (type === 'array') return arrayType(schema) + orNull
  if (Array.isArray(type) && type.length > 0) return type.map(String).join(' | ')
  if (Array.isArray(schema['oneOf'])) return unionType(schema['oneOf'].filter(isSchema))
  if (type === 'string') {
    const choices = strings(schema['enum'])
    return choices.length > 0 ? `"${choices.join('" | "')}"` : `string${orNull}`
  }
  if (type === 'object') return objectType(schema)
  return PRIMITIVES[String(type)] ?? 'any'
}

function arrayType({ items }: Schema): string {
  if (!isSchema(items) || Object.keys(items).length === 0) return 'any[]'
  const itemType = String(items['type'])
  if (itemType === 'string') return 'string[]'
  const primitive = PRIMITIVES[itemType]
  if (primitive !== undefined) return `${primitive}[]`
  const inner = typeOf(items)
  return inner === 'object | object' || Array.from(inner).length > 50 ? 'any[]' : `${inner}[]`
}

function unionType(variants: readonly Schema[]): string {
  if (variants.length > 1 && variants.some((variant) => variant['type'] === 'object')) return 'any'
  return variants
    .map((variant) => {
      const comment = variant['description'] ? `// ${words(variant['description'])}` : ''
      const fallback = variant['default'] === undefined ? '' : `// default: ${JSON.stringify(variant['default'])}`
      return typeOf(variant) + comment + fallback
    })
    .join(' | ')
}

function objectType(schema: Schema): string {
  if (!isSchema(schema['properties']) || Object.keys(schema['properties']).length === 0) return 'object'
  const required = strings(schema['required'])
  const members = Object.entries(schema['properties']).map(
    ([key, value]) => `${key}${required.includes(key) ? '' : '?'}: ${NESTED}${typeOf(isSchema(value) ? value : {})}`,
  )
  return `{\n${members.join(', ')}}`
}
