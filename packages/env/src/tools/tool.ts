import { toolSpecSchema, type Message, type ToolSpec } from '@selfplay/renderers'
import { z } from 'zod'
import { EnvInputError } from '../errors.js'
import type { Metrics } from '../metrics.js'
import type { CallOptions } from '../types.js'

export interface ToolContext extends CallOptions {
  /** The id that the model gave its call, if any. */
  readonly callId?: string
}

export interface ToolOutput {
  readonly content: Message['content']
  /** Ends the episode after this turn. Default false. */
  readonly stop?: boolean
  /** Added to the metrics of the step under `<tool>/<name>`. */
  readonly metrics?: Metrics
}

/** A function that a model may call. */
export interface Tool extends ToolSpec {
  /** Checks arguments as they were parsed from JSON. */
  readonly schema: z.ZodObject
  run(args: unknown, context: ToolContext): Promise<ToolOutput>
}

export interface ToolDefinition<S extends z.ZodObject> {
  readonly name: string
  /** What the model reads about the tool. */
  readonly description: string
  /** The arguments. Described to the model as JSON schema. */
  readonly parameters: S
  run(args: z.output<S>, context: ToolContext): string | ToolOutput | Promise<string | ToolOutput>
}

/**
 * Makes a tool from a zod schema and a function.
 *
 * ```ts
 * const add = tool({
 *   name: 'add',
 *   description: 'Adds two numbers.',
 *   parameters: z.object({ a: z.number(), b: z.number() }),
 *   run: ({ a, b }) => String(a + b),
 * })
 * ```
 *
 * @throws EnvInputError for a name with blanks, or a schema that JSON schema cannot say
 */
export function tool<S extends z.ZodObject>(definition: ToolDefinition<S>): Tool {
  const { name, description, parameters } = definition
  const spec = { name, description, parameters: jsonSchemaOf(name, parameters) }
  const checked = toolSpecSchema.safeParse(spec)
  if (!checked.success) throw new EnvInputError(`tool ${JSON.stringify(name)}: ${checked.error.issues[0]!.message}`)
  return {
    ...spec,
    schema: parameters,
    async run(args, context) {
      const output = await definition.run(args as z.output<S>, context)
      return typeof output === 'string' ? { content: output } : output
    },
  }
}

function jsonSchemaOf(name: string, parameters: z.ZodObject): Record<string, unknown> {
  try {
    const { $schema: _draft, ...schema } = z.toJSONSchema(parameters, { io: 'input' })
    return schema
  } catch (cause) {
    throw new EnvInputError(`tool ${JSON.stringify(name)}: ${(cause as Error).message}`)
  }
}
