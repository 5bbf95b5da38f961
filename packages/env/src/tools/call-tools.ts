import { partsOf, toolResult, type Message, type ToolCallPart, type UnparsedToolCallPart } from '@selfplay/renderers'
import { bounded } from '../deadline.js'
import { TimeoutError } from '../errors.js'
import type { Metrics } from '../metrics.js'
import type { Tool } from './tool.js'

/** Why a call has no result. The tool message to the model holds it as JSON, `{"error", "message"}`. */
export type ToolErrorKind =
  'json_decode_failed' | 'tool_not_found' | 'validation_failed' | 'execution_failed' | 'tool_timeout'

export interface CallToolsOptions {
  readonly tools: readonly Tool[]
  /** Most calls that are run; the first ones are. */
  readonly budget: number
  readonly execution: 'parallel' | 'sequential'
  /** Most seconds for one call; null is no limit. */
  readonly timeoutSeconds: number | null
  readonly signal: AbortSignal
}

export interface CalledTools {
  /** One tool message per call that was not dropped, in the order of the calls. */
  readonly messages: readonly Message[]
  readonly called: number
  readonly errors: number
  readonly dropped: number
  /** A tool asked to end the episode. */
  readonly stop: boolean
  /** Of the tools, summed, under `<tool>/<name>`. */
  readonly metrics: Metrics
}

type Call = ToolCallPart | UnparsedToolCallPart

interface Answer {
  readonly message: Message
  readonly error: boolean
  readonly stop: boolean
  readonly metrics: Metrics
}

/** All calls of a message, readable or not, in order. */
export const callsOf = (message: Message): Call[] =>
  partsOf(message).filter((part) => part.type === 'tool_call' || part.type === 'unparsed_tool_call')

/**
 * Runs the calls of a message. A call that cannot be read, or whose tool throws, gives an error message to the model; it never
 * throws here. Unreadable calls cost no budget.
 *
 * @throws the signal's reason when aborted
 */
export async function callTools(message: Message, options: CallToolsOptions): Promise<CalledTools> {
  let left = options.budget
  const kept = callsOf(message).filter((call) => call.type === 'unparsed_tool_call' || left-- > 0)
  const dropped = callsOf(message).length - kept.length
  const answers: Answer[] = []
  if (options.execution === 'parallel') answers.push(...(await Promise.all(kept.map((call) => answer(call, options)))))
  else for (const call of kept) answers.push(await answer(call, options))
  const metrics: Record<string, number> = {}
  for (const one of answers)
    for (const [name, value] of Object.entries(one.metrics)) metrics[name] = (metrics[name] ?? 0) + value
  return {
    messages: answers.map((one) => one.message),
    called: kept.filter((call) => call.type === 'tool_call').length,
    errors: answers.filter((one) => one.error).length,
    dropped,
    stop: answers.some((one) => one.stop),
    metrics,
  }
}

async function answer(call: Call, options: CallToolsOptions): Promise<Answer> {
  if (call.type === 'unparsed_tool_call') return failure(call, 'json_decode_failed', call.error)
  const tool = options.tools.find(({ name }) => name === call.name)
  if (!tool) {
    const known = options.tools.map(({ name }) => name).join(', ')
    return failure(call, 'tool_not_found', `no tool is called ${JSON.stringify(call.name)}; there are: ${known}`)
  }
  const args = tool.schema.safeParse(JSON.parse(call.arguments))
  if (!args.success) {
    const problems = args.error.issues.map(
      ({ path, message }) => `${path.map(String).join('.') || 'arguments'}: ${message}`,
    )
    return failure(call, 'validation_failed', problems.join('; '))
  }
  return run(call, tool, args.data, options)
}

async function run(call: ToolCallPart, tool: Tool, args: unknown, options: CallToolsOptions): Promise<Answer> {
  const { signal, timeoutSeconds: seconds } = options
  const expired = () => new TimeoutError(`the tool ${tool.name}`, seconds!, 'tool_timeout')
  try {
    const {
      content,
      stop = false,
      metrics = {},
    } = await bounded(
      (inner) => tool.run(args, { signal: inner, ...(call.id === undefined ? {} : { callId: call.id }) }),
      { signal, deadlines: seconds === null ? [] : [{ ms: seconds * 1000, expired }] },
    )
    const named = Object.entries(metrics).map(([name, value]) => [`${tool.name}/${name}`, value] as const)
    return { message: toolResult(content, whose(call)), error: false, stop, metrics: Object.fromEntries(named) }
  } catch (error) {
    signal.throwIfAborted()
    const kind = error instanceof TimeoutError ? 'tool_timeout' : 'execution_failed'
    return failure(call, kind, error instanceof Error ? error.message : String(error))
  }
}

function failure(call: Call, error: ToolErrorKind, message: string): Answer {
  return { message: toolResult(JSON.stringify({ error, message }), whose(call)), error: true, stop: false, metrics: {} }
}

/** Whose result a message is. An unreadable call is named as far as its name can be made out. */
function whose(call: Call): { name: string; toolCallId?: string } {
  if (call.type === 'unparsed_tool_call')
    return { name: /"name"\s*:\s*"([^"\s]{1,256})"/u.exec(call.rawText)?.[1] ?? 'unknown' }
  return { name: call.name, ...(call.id === undefined ? {} : { toolCallId: call.id }) }
}
