import type { Datum } from '@selfplay/engine'
import type { Message, Renderer, SupervisedExample, ToolSpec, TrainOnWhat } from '@selfplay/renderers'
import { DatasetError } from '../errors.js'

/** A conversation with what belongs to it. */
export interface ConversationRow {
  readonly messages: readonly Message[]
  /** Tools that are declared in it. Default none. */
  readonly tools?: readonly ToolSpec[]
  /** Which tokens carry loss. Default: the run's `trainOn`. */
  readonly trainOn?: TrainOnWhat
}

/** What can be trained on: a conversation, or ids with a weight each. */
export type SupervisedRow = readonly Message[] | ConversationRow | SupervisedExample

/** Modes that train assistant messages: each stands behind the prompt that it would be sampled from. */
const ASSISTANT: ReadonlySet<TrainOnWhat> = new Set([
  'last_assistant_message',
  'last_assistant_turn',
  'all_assistant_messages',
])

const isExample = (row: SupervisedRow): row is SupervisedExample => 'tokens' in row && 'weights' in row
const isConversation = (row: SupervisedRow): row is ConversationRow => 'messages' in row

/**
 * The training examples of a row: one, or one per assistant message where the format re-renders history.
 *
 * @throws DatasetError naming the row: it is none, or there is no renderer to lay it out; `cause` is the renderer's error
 */
export function examplesOf(
  row: SupervisedRow,
  index: number,
  { renderer, trainOn }: { readonly renderer: Renderer | undefined; readonly trainOn: TrainOnWhat },
): SupervisedExample[] {
  if (typeof row !== 'object' || row === null)
    throw new DatasetError(`row ${index}: expected messages, or {tokens, weights}, got ${typeof row}`, { row: index })
  if (isExample(row)) return [checkedExample(row, index)]
  if (!Array.isArray(row) && !isConversation(row))
    throw new DatasetError(
      `row ${index}: expected a list of messages, {messages}, or {tokens, weights}, got {${Object.keys(row).join(', ')}}. A prompt ` +
        'and its completion are [user(prompt), assistant(completion)]',
      { row: index },
    )
  const conversation: ConversationRow = isConversation(row) ? row : { messages: row }
  if (!renderer)
    throw new DatasetError(`row ${index} is a conversation, and there is no renderer to lay it out: pass renderer`, {
      row: index,
    })
  const mode = conversation.trainOn ?? trainOn
  const options = { trainOn: mode, ...(conversation.tools && { tools: conversation.tools }) }
  try {
    if (ASSISTANT.has(mode)) return renderer.supervisedExamples(conversation.messages, options)
    return [renderer.supervisedExample(conversation.messages, options)]
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    throw new DatasetError(`row ${index}: ${message}`, { row: index }, { cause })
  }
}

function checkedExample(example: SupervisedExample, index: number): SupervisedExample {
  const { tokens, weights } = example
  if (tokens.length === weights.length) return example
  throw new DatasetError(
    `row ${index}: ${tokens.length} tokens came with ${weights.length} weights, expected one each`,
    {
      row: index,
      expected: tokens.length,
      got: weights.length,
    },
  )
}

/** A training sequence of a supervised run. */
export interface SupervisedDatum {
  /** Weights as the example had them. */
  readonly datum: Datum
  /** Sum of the weights. */
  readonly weight: number
  /** Cut off at the end because it was too long. */
  readonly truncated: boolean
}

/**
 * An example of L tokens as a datum of T = L - 1 positions, cut off on the right to at most `maxLength` of them: position t
 * predicts token t + 1 with that token's weight. Null when no weighted token is left.
 */
export function toSupervisedDatum({ tokens, weights }: SupervisedExample, maxLength: number): SupervisedDatum | null {
  const T = Math.min(tokens.length - 1, maxLength)
  if (T < 1) return null
  const kept = weights.slice(1, T + 1)
  const weight = kept.reduce((sum, value) => sum + value, 0)
  if (weight === 0) return null
  const datum = { tokens: tokens.slice(0, T), targets: tokens.slice(1, T + 1), weights: kept }
  return { datum, weight, truncated: tokens.length - 1 > maxLength }
}

/**
 * The same data with weights that make the summed loss a mean, over however many calls it is spread:
 * `example`: the mean over examples of each one's mean loss per weighted token; `token`: the mean over all weighted tokens.
 */
export function normaliseWeights(data: readonly SupervisedDatum[], reduction: 'example' | 'token'): Datum[] {
  const total = data.reduce((sum, { weight }) => sum + weight, 0)
  return data.map(({ datum, weight }) => {
    const scale = reduction === 'token' ? 1 / total : 1 / (weight * data.length)
    return { ...datum, weights: datum.weights!.map((value) => value * scale) }
  })
}

/**
 * Packs items into as few calls as it finds with at most `maxTokens` tokens each (first fit, longest first); a longer one goes
 * alone. Every item is in exactly one call; calls and their items are in order.
 *
 * @returns indices of the items, [call][item]
 */
export function packByTokens(lengths: readonly number[], maxTokens: number | null): number[][] {
  if (lengths.length === 0) return []
  if (maxTokens === null) return [lengths.map((_, index) => index)]
  const order = lengths.map((_, index) => index).sort((a, b) => lengths[b]! - lengths[a]! || a - b)
  const calls: { items: number[]; tokens: number }[] = []
  for (const index of order) {
    const length = lengths[index]!
    const found = calls.find(({ tokens }) => tokens + length <= maxTokens)
    if (found) {
      found.items.push(index)
      found.tokens += length
    } else calls.push({ items: [index], tokens: length })
  }
  return calls.map(({ items }) => items.sort((a, b) => a - b)).sort((a, b) => a[0]! - b[0]!)
}
