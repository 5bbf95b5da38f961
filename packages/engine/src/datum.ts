import { InvalidInputError } from './errors.js'

/**
 * One training sequence of T positions. Position t reads `tokens[0..t]` and predicts `targets[t]`.
 *
 * All arrays have length T. A position whose weight is 0 is not trained: its log-prob is not computed and comes back as 0.
 */
export interface Datum {
  /** Input ids, int32 [T]. */
  readonly tokens: Int32Array
  /** The id that each position is to predict, int32 [T]. */
  readonly targets: Int32Array
  /** Loss weight per position, float32 [T]. Default: 1 everywhere. */
  readonly weights?: Float32Array
  /** Advantage per position, float32 [T]. Needed by the policy-gradient losses. */
  readonly advantages?: Float32Array
  /** Log-probs of `targets` under the policy that sampled them, float32 [T]. Needed by the losses that use a ratio. */
  readonly samplerLogprobs?: Float32Array
  /** The temperature that log-probs are taken at (logits are divided by it). Default 1. Must be > 0. */
  readonly temperature?: number
}

/** Options of {@link checkDatums}. */
export interface DatumLimits {
  /** Ids must be below it. */
  readonly vocabSize?: number
  /** T must not exceed it. */
  readonly contextLength?: number
}

/** The array that each field must be. A record, so that the compiler keeps it whole. */
const ARRAYS: Record<Exclude<keyof Datum, 'temperature'>, typeof Int32Array | typeof Float32Array> = {
  tokens: Int32Array,
  targets: Int32Array,
  weights: Float32Array,
  advantages: Float32Array,
  samplerLogprobs: Float32Array,
}

const PER_POSITION = ['targets', 'weights', 'advantages', 'samplerLogprobs'] as const

/**
 * Refuses data that cannot be trained on: unknown fields, other kinds of arrays, unequal lengths, ids outside the vocabulary,
 * non-finite numbers.
 *
 * @throws InvalidInputError naming the datum, the field, what was expected and what came.
 */
export function checkDatums(data: readonly Datum[], limits: DatumLimits = {}): void {
  if (!Array.isArray(data)) throw new InvalidInputError(`expected a list of datums, got ${typeof data}`)
  if (data.length === 0) throw new InvalidInputError('expected at least one datum, got an empty list')
  data.forEach((datum, index) => checkDatum(datum, index, limits))
}

function checkFields(datum: Datum, index: number): void {
  if (typeof datum !== 'object' || datum === null) {
    throw new InvalidInputError(`datum ${index}: expected {tokens, targets, ...}, got ${String(datum)}`, {
      datum: index,
    })
  }
  for (const field of Object.keys(datum)) {
    if (field === 'temperature' || Object.hasOwn(ARRAYS, field)) continue
    const known = [...Object.keys(ARRAYS), 'temperature'].join(', ')
    throw new InvalidInputError(`datum ${index} has no field "${field}"; it has ${known}`, { datum: index, field })
  }
  for (const [field, kind] of Object.entries(ARRAYS)) {
    const value: unknown = datum[field as keyof Datum]
    if (value instanceof kind || (value === undefined && field !== 'tokens' && field !== 'targets')) continue
    const got =
      value === undefined
        ? 'nothing'
        : Array.isArray(value)
          ? 'a list'
          : ((value as object | null)?.constructor.name ?? 'null')
    throw new InvalidInputError(`datum ${index}: ${field}: expected a ${kind.name}, one value per token, got ${got}`, {
      datum: index,
      field,
    })
  }
}

function checkDatum(datum: Datum, index: number, limits: DatumLimits): void {
  checkFields(datum, index)
  const T = datum.tokens.length
  if (T === 0) throw new InvalidInputError(`datum ${index} is empty: expected at least one position`, { datum: index })
  if (limits.contextLength !== undefined && T > limits.contextLength) {
    throw new InvalidInputError(
      `datum ${index} has ${T} positions, but the model's context is ${limits.contextLength}: shorten it`,
      { datum: index, length: T, contextLength: limits.contextLength },
    )
  }
  for (const field of PER_POSITION) {
    const length = datum[field]?.length
    if (length !== undefined && length !== T) {
      throw new InvalidInputError(`datum ${index}: ${field} has length ${length}, expected ${T}, one per token`, {
        datum: index,
        field,
        expected: T,
        got: length,
      })
    }
  }
  checkIds(datum.tokens, 'tokens', index, limits.vocabSize)
  checkIds(datum.targets, 'targets', index, limits.vocabSize)
  for (const field of ['weights', 'advantages', 'samplerLogprobs'] as const) checkFinite(datum, field, index)
  const { temperature = 1 } = datum
  if (!(temperature > 0 && Number.isFinite(temperature))) {
    throw new InvalidInputError(`datum ${index}: temperature must be a finite number > 0, got ${temperature}`, {
      datum: index,
      got: temperature,
    })
  }
}

function checkIds(ids: Int32Array, field: string, datum: number, vocabSize = Infinity): void {
  const at = ids.findIndex((id) => id < 0 || id >= vocabSize)
  if (at >= 0) {
    throw new InvalidInputError(
      `datum ${datum}: ${field}[${at}] is ${ids[at]}, outside the vocabulary of ${vocabSize} ids`,
      { datum, field, position: at, got: ids[at], vocabSize },
    )
  }
}

function checkFinite(datum: Datum, field: 'weights' | 'advantages' | 'samplerLogprobs', index: number): void {
  const values = datum[field]
  if (!values) return
  const at = values.findIndex(
    (value, t) => !Number.isFinite(value) && (field === 'weights' || datum.weights?.[t] !== 0),
  )
  if (at >= 0) {
    throw new InvalidInputError(`datum ${index}: ${field}[${at}] is ${values[at]}, expected a finite number`, {
      datum: index,
      field,
      position: at,
    })
  }
}
