import { expect, it } from 'vitest'
import { toolNamespace } from './typescript-tools.js'

const typeOf = (schema: object, required = false): string =>
  toolNamespace('t', [
    { name: 'f', description: 'd', parameters: { properties: { x: schema }, required: required ? ['x'] : [] } },
  ])
    .split('(_: {\n')[1]!
    .split(',\n}) => any')[0]!

it.each([
  [{ type: 'string' }, 'x?: string'],
  [{ type: 'string', nullable: true }, 'x?: string | null'],
  [{ type: 'string', enum: ['a', 'b'], default: 'a' }, 'x?: "a" | "b", // default: a'],
  [{ type: 'integer', default: 3 }, 'x?: number, // default: 3'],
  [{ type: 'boolean', description: 'why' }, '// why\nx?: boolean'],
  [{ type: 'array', items: { type: 'integer' } }, 'x?: number[]'],
  [{ type: 'array', nullable: true }, 'x?: any[] | null'],
  [{ type: 'array', items: { type: 'array', items: { type: 'string' } } }, 'x?: string[][]'],
  [{ type: ['string', 'null'] }, 'x?: string | null'],
  [
    { oneOf: [{ type: 'string' }, { type: 'number', default: 1 }], default: 2 },
    'x?: string | number// default: 1// default: 2',
  ],
  [{ oneOf: [{ type: 'object' }, { type: 'string' }] }, 'x?: any'],
  [{ type: 'object' }, 'x?: object'],
  [{}, 'x?: any'],
])('%j -> %s', (schema, type) => {
  expect(typeOf(schema)).toBe(type)
})

it('marks what is required and declares tools without parameters', () => {
  expect(typeOf({ type: 'string' }, true)).toBe('x: string')
  expect(toolNamespace('t', [{ name: 'f', description: 'd', parameters: {} }])).toBe(
    '## t\n\nnamespace t {\n\n// d\ntype f = () => any;\n\n} // namespace t',
  )
})
