import { ContextOverflowError, InvalidInputError, samplingSchema } from '@selfplay/engine'
import type { SampleRequest } from '@selfplay/engine'
import { checkKeys } from '../runtime/nearest.js'

/** A request with every default filled in, known to be runnable. */
export interface Task {
  readonly prompt: Int32Array
  readonly numSamples: number
  /** Most new tokens: the request's own limit or what the context leaves, whichever is less. */
  readonly maxTokens: number
  /** 0 is greedy. */
  readonly temperature: number
  /** 0: no limit. */
  readonly topK: number
  /** 1: no limit. */
  readonly topP: number
  readonly stopIds: ReadonlySet<number>
  readonly stopStrings: readonly string[]
  readonly seed: number | undefined
}

export interface RequestLimits {
  readonly vocabSize: number
  /** Longest prompt + completion, in tokens. */
  readonly contextLength: number
  /** What ends a completion when the request says nothing. */
  readonly defaultStop: readonly (number | string)[]
  /** Whether token ids can be turned into text, which stop strings need. */
  readonly canDecode: boolean
}

/**
 * Checks a request and fills in its defaults.
 *
 * @throws InvalidInputError naming the field; ContextOverflowError when the prompt leaves no room for a new token.
 */
export function checkRequest(request: SampleRequest, limits: RequestLimits): Task {
  const { prompt, ...rest } = request
  checkIds({ call: 'sample', field: 'prompt' }, prompt, limits.vocabSize)
  const options = parseOptions(rest)
  const room = limits.contextLength - prompt.length
  if (room < 1) {
    throw new ContextOverflowError(
      `the prompt has ${prompt.length} tokens and the context ${limits.contextLength}: no room for a new token; shorten the prompt`,
      { promptLength: prompt.length, contextLength: limits.contextLength },
    )
  }
  const stop = options.stop ?? limits.defaultStop
  const stopIds = stop.filter((entry): entry is number => typeof entry === 'number')
  const stopStrings = stop.filter((entry): entry is string => typeof entry === 'string')
  checkStop(stopIds, stopStrings, limits)
  // At temperature 0 the most probable token is in every filter, and a filter of everything is none.
  const { temperature = 1, topP = 1 } = options
  const greedy = temperature === 0
  const topK = options.topK !== undefined && options.topK < limits.vocabSize ? options.topK : 0
  return {
    prompt: Int32Array.from(prompt),
    numSamples: options.numSamples ?? 1,
    maxTokens: Math.min(options.maxTokens, room),
    temperature,
    topK: greedy ? 0 : topK,
    topP: greedy ? 1 : topP,
    stopIds: new Set(stopIds),
    stopStrings,
    seed: options.seed,
  }
}

const OPTION_NAMES = Object.keys(samplingSchema.shape)

function parseOptions(options: Omit<SampleRequest, 'prompt'>) {
  const result = samplingSchema.safeParse(options)
  if (!result.success) {
    const issue = result.error.issues[0]
    if (issue?.code === 'unrecognized_keys') checkKeys('sample', options, OPTION_NAMES)
    const field = issue?.path.join('.') ?? ''
    throw new InvalidInputError(`sample: ${field}: ${issue?.message ?? 'not usable'}`, { field })
  }
  const { temperature } = result.data
  // The reciprocal must be a float32 number; nothing real is colder.
  if (temperature !== undefined && temperature !== 0 && temperature < 1e-6) {
    throw new InvalidInputError(`sample: temperature is ${temperature}: expected 0 (greedy) or at least 1e-6`, {
      field: 'temperature',
      got: temperature,
    })
  }
  return result.data
}

/**
 * @param where the call and the argument that the ids came in.
 * @throws InvalidInputError when a token list is no Int32Array, is empty, or holds ids outside the vocabulary.
 */
export function checkIds(
  { call, field }: { readonly call: 'sample' | 'logprobs'; readonly field: string },
  ids: Int32Array,
  vocabSize: number,
): void {
  if (!(ids instanceof Int32Array)) {
    const got = Array.isArray(ids) ? 'an array' : `a ${typeof ids}`
    throw new InvalidInputError(
      `${call}: ${field}: expected an Int32Array of token ids, got ${got}: use Int32Array.from(tokenizer.encode(text))`,
      { field },
    )
  }
  if (ids.length === 0) {
    throw new InvalidInputError(
      `${call}: ${field} is empty: expected at least one token (a begin-of-text id will do)`,
      { field },
    )
  }
  const at = ids.findIndex((id) => id < 0 || id >= vocabSize)
  if (at >= 0) {
    throw new InvalidInputError(`${call}: ${field}[${at}] is ${ids[at]}, outside the vocabulary of ${vocabSize} ids`, {
      field,
      position: at,
      got: ids[at],
      vocabSize,
    })
  }
}

function checkStop(ids: readonly number[], strings: readonly string[], limits: RequestLimits): void {
  const bad = ids.find((id) => id >= limits.vocabSize)
  if (bad !== undefined) {
    throw new InvalidInputError(`sample: stop id ${bad} is outside the vocabulary of ${limits.vocabSize} ids`, {
      field: 'stop',
      got: bad,
      vocabSize: limits.vocabSize,
    })
  }
  if (strings.length > 0 && !limits.canDecode) {
    throw new InvalidInputError(
      `sample: stop string ${JSON.stringify(strings[0])} needs a tokenizer: give the sampler a \`decode\` function, or use token ids`,
      { field: 'stop', got: strings[0] },
    )
  }
}
