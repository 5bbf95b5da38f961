import { contentOf, partsOf, sameMessage, type ContentPart, type Message, type ToolSpec } from '../messages.js'
import type { ParseEvent, ParsedResponse, Renderer } from '../renderer.js'
import { isPrefix } from '../supervised.js'

// Each check throws an Error that says what is wrong, so that it serves any test runner and any property library.

function fail(message: string, facts: Record<string, unknown> = {}): never {
  throw new Error(`${message}\n${JSON.stringify(facts, null, 1)}`)
}

/** The prompt and the target of a conversation that ends with an assistant message. */
export interface PromptAndTarget {
  readonly prompt: Int32Array
  readonly target: Int32Array
}

/** The example of a conversation starts with its generation prompt; weights are 1 exactly on what follows. */
export function checkExample(
  renderer: Renderer,
  messages: readonly Message[],
  tools: readonly ToolSpec[] = [],
): PromptAndTarget {
  const prompt = renderer.generationPrompt(messages.slice(0, -1), { tools })
  const { tokens, weights } = renderer.supervisedExample(messages, { tools })
  const decode = (ids: Int32Array) => renderer.tokenizer.decode(ids)
  if (tokens.length !== weights.length) fail('tokens and weights differ in length')
  if (!isPrefix(prompt, tokens))
    fail('the example does not start with the generation prompt', { prompt: decode(prompt), example: decode(tokens) })
  const wrong = weights.findIndex((weight, k) => weight !== (k < prompt.length ? 0 : 1))
  if (wrong >= 0) fail('weights are not 1 exactly on what a sampler emits', { at: wrong, prompt: prompt.length })
  const target = tokens.slice(prompt.length)
  if (target.length === 0) fail('the target is empty: a sampler has to emit at least the stop')
  return { prompt, target }
}

/** What was rendered is read back as `renderer.normalise` says. */
export function checkRoundTrip(
  renderer: Renderer,
  messages: readonly Message[],
  tools: readonly ToolSpec[] = [],
): void {
  const { prompt, target } = checkExample(renderer, messages, tools)
  const given = messages.at(-1)!
  const expected = renderer.normalise(given)
  const parsed = renderer.parse(target, { prompt })
  if (parsed.termination === 'malformed') fail('a rendered message is read as malformed', { given, parsed })
  if (!sameMessage(parsed.message, expected))
    fail('parse(render(m)) is not the normalised m', { given, expected, parsed: parsed.message })
  if (!sameMessage(renderer.normalise(expected), expected)) fail('normalising twice changes the message', { expected })
}

/** The message that the events of a stream add up to. */
export function messageOfEvents(events: readonly ParseEvent[]): Message {
  const parts: ContentPart[] = []
  for (const event of events) {
    const last = parts[event.index]
    if (event.type === 'part') parts[event.index] = event.part
    else if (event.type === 'text')
      parts[event.index] = { type: 'text', text: (last?.type === 'text' ? last.text : '') + event.delta }
    else
      parts[event.index] = {
        type: 'thinking',
        thinking: (last?.type === 'thinking' ? last.thinking : '') + event.delta,
      }
  }
  return { role: 'assistant', content: contentOf(parts) }
}

function parseInPushes(renderer: Renderer, pushes: readonly (readonly number[])[], prompt: Int32Array | undefined) {
  const stream = renderer.parseStream(prompt ? { prompt } : {})
  const events = pushes.flatMap((ids) => stream.push(ids))
  const { events: last, ...result } = stream.finish()
  return { result: result as ParsedResponse, events: [...events, ...last] }
}

/** A stream gives what `parse` gives, cut at every place and token by token; its events add up to the message. */
export function checkStreaming(renderer: Renderer, ids: readonly number[], prompt?: Int32Array): void {
  const whole = renderer.parse(ids, prompt ? { prompt } : {})
  const cuts = Array.from({ length: ids.length + 1 }, (_, at) => [ids.slice(0, at), ids.slice(at)])
  for (const pushes of [...cuts, ids.map((id) => [id])]) {
    const { result, events } = parseInPushes(renderer, pushes, prompt)
    if (JSON.stringify(result) !== JSON.stringify(whole))
      fail('a stream gives another result', { whole, result, pushes })
    const joined = messageOfEvents(events)
    if (JSON.stringify(joined) !== JSON.stringify(whole.message))
      fail('the events of a stream do not add up to the message', { whole: whole.message, joined, pushes })
  }
}

/** How many control ids a rendering holds. */
export const controlCount = (renderer: Renderer, ids: Iterable<number>): number =>
  [...ids].filter((id) => renderer.markerIds.has(id) || renderer.tokenizer.controlIds?.has(id)).length

const FILLER = 'x'

/** A conversation in which every text, name and id is replaced. */
export function withTexts(messages: readonly Message[], replace: (text: string) => string): Message[] {
  return messages.map((message) => ({
    ...message,
    content: contentOf(partsOf(message).map((part) => withPartTexts(part, replace))),
    ...(message.name === undefined ? {} : { name: replace(message.name) }),
    ...(message.toolCallId === undefined ? {} : { toolCallId: replace(message.toolCallId) }),
  }))
}

function withPartTexts(part: ContentPart, replace: (text: string) => string): ContentPart {
  if (part.type === 'text') return { ...part, text: replace(part.text) }
  if (part.type === 'thinking') return { ...part, thinking: replace(part.thinking) }
  if (part.type === 'unparsed_tool_call') return { ...part, rawText: replace(part.rawText) }
  const name = replace(part.name).replaceAll(/\s/gu, '_')
  return { ...part, name, arguments: JSON.stringify({ value: replace(part.arguments) }) }
}

/** Whatever a conversation says, it holds as many control ids as the same conversation that says nothing. */
export function checkInjection(
  renderer: Renderer,
  messages: readonly Message[],
  tools: readonly ToolSpec[] = [],
): void {
  const quiet = withTexts(messages, () => FILLER)
  const quietTools = tools.map((tool) => ({ ...tool, description: FILLER, name: FILLER, parameters: {} }))
  const count = (of: readonly Message[], declared: readonly ToolSpec[]) =>
    controlCount(
      renderer,
      of.at(-1)!.role === 'assistant'
        ? renderer.supervisedExample(of, { tools: declared }).tokens
        : renderer.generationPrompt(of, { tools: declared }),
    )
  const [expected, got] = [count(quiet, quietTools), count(messages, tools)]
  if (expected !== got) fail('message text became control tokens', { expected, got, messages })
}

/** The bridge continues from the sampled ids, and by default as the format itself writes the conversation. */
export function checkBridge(renderer: Renderer, messages: readonly Message[], next: readonly Message[]): void {
  const { prompt, target } = checkExample(renderer, messages)
  const transcript = Int32Array.from([...prompt, ...target])
  const bridged = renderer.bridge(transcript, next, { history: messages })
  if (!isPrefix(transcript, bridged)) fail('the bridged prompt does not start with the transcript')
  if (bridged.length <= transcript.length) fail('the bridge added nothing')
  const rendered = renderer.generationPrompt([...messages, ...next])
  if (isPrefix(transcript, rendered) && !(bridged.length === rendered.length && isPrefix(bridged, rendered)))
    fail('the bridge differs from the prompt that the format renders', {
      bridged: renderer.tokenizer.decode(bridged),
      rendered: renderer.tokenizer.decode(rendered),
    })
}

/** Responses that end wrongly are malformed and never throw. */
export function checkEnds(renderer: Renderer, messages: readonly Message[]): void {
  const { prompt, target } = checkExample(renderer, messages)
  const ids = [...target]
  const twice = [...ids, ...ids]
  if (renderer.parse(twice, { prompt }).termination !== 'malformed') fail('two ends are not read as malformed')
  if (renderer.parse([], { prompt }).termination !== 'malformed') fail('a response without an end is not malformed')
  const stopId = renderer.stop.find((stop) => typeof stop === 'number' && stop !== renderer.tokenizer.eosTokenId)
  if (stopId === undefined) return
  const empty = renderer.parse([stopId as number], { prompt })
  if (!empty.isClean || partsOf(empty.message).length > 0) fail('an empty answer is not a valid one', { empty })
}
