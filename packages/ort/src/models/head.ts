import type { Graph, Value } from '../graph/index.js'

/** Inputs that say what to score, all of length n. */
export interface HeadInputs {
  /** Input `targets`, int32 [n]. */
  readonly targets: Value
  /** Input `inverse_temperature`, float32 [n]: logits are multiplied by it. */
  readonly inverseTemperature: Value
}

/** Declares the inputs of a head, with the symbol `n`. */
export function headInputs(g: Graph): HeadInputs {
  return {
    targets: g.input('targets', 'int32', ['n']),
    inverseTemperature: g.input('inverse_temperature', 'float32', ['n']),
  }
}

/** What every head computes; each float32 [n]. */
interface Scores {
  /** log p(target). */
  readonly logprobs: Value
  /** log of the sum of exp(logits * inverse temperature). */
  readonly logSumExp: Value
}

/** A head without a gradient. */
export interface Head extends Scores {
  /** Entropy of the whole distribution, in nats, float32 [n]. */
  readonly entropy: Value
}

/** A head with a gradient. */
export interface TrainedHead extends Scores {
  /** dLogprobs: float32 [n]. */
  backward(dLogprobs: Value): HeadGradients
}

/** Gradients of sum(dLogprobs * logprobs), and what comes out of them. */
export interface HeadGradients {
  /** With respect to the hidden rows, float32 [n, hidden]. */
  readonly hidden: Value
  /** With respect to each chunk of the head matrix; undefined for frozen weights. */
  readonly chunks: readonly (Value | undefined)[]
  /** Entropy of the whole distribution, in nats, float32 [n]. */
  readonly entropy: Value
}

/**
 * Log-probs of targets under softmax(invT * h W^T), and its entropy.
 *
 * @param hidden rows after the final norm, float32 [n, hidden]
 * @param chunks the head matrix [vocabulary, hidden], cut into consecutive rows: float32 [size, hidden] each
 */
export function logprobHead(g: Graph, hidden: Value, chunks: readonly Value[], inputs: HeadInputs): Head {
  const { scores, logTotal, total, pieces } = forward(g, hidden, chunks, inputs, true)
  const weighted = combine(g, pieces).weighted!
  return { ...scores, entropy: g.reshape(g.sub(logTotal, g.div(weighted, total)), ['n']) }
}

/**
 * The same with a gradient written by hand.
 *
 * With p the softmax and e_t the one-hot target, d logp / d logits = e_t - p. The gradients are taken as
 * dh = invT * dlogp * (W_t - p W) and dW = (e_t - p)^T (dlogp * invT * h): row scales go to the small side of each
 * product, and no pass over [n, vocabulary] is spent on them. With one chunk, the exponentials of the forward pass are
 * reused. With several, nothing of size [n, vocabulary] lives: the forward pass keeps a few numbers per row, and the
 * backward pass computes each chunk's p anew as exp(h W^T - logSumExp).
 *
 * With p W at hand, the mean logit is invT * h (p W)^T, and the entropy logSumExp less that: without a pass of its own over
 * [n, vocabulary], so that the exponentials can have the memory of the logits. It is off by rounding of the logits' size.
 */
export function trainedHead(g: Graph, hidden: Value, chunks: readonly Value[], inputs: HeadInputs): TrainedHead {
  const ahead = forward(g, hidden, chunks, inputs, false)
  return {
    ...ahead.scores,
    backward: (dLogprobs) => new HeadBackward(g, { hidden, ...ahead }).run(dLogprobs),
  }
}

/** A chunk of the vocabulary and where each target lies in it. */
interface Place {
  readonly weight: Value
  /** int32 [n, 1]: row of the target in the chunk; some row where the target is elsewhere. */
  readonly index: Value
  /** float32 [n, 1]: 1 where the target is in the chunk. Undefined: it always is. */
  readonly inside: Value | undefined
}

function placeChunks(g: Graph, chunks: readonly Value[], targets: Value): Place[] {
  if (chunks.length === 1) return [{ weight: chunks[0]!, index: targets, inside: undefined }]
  let start = 0
  return chunks.map((weight) => {
    const size = weight.shape[0] as number
    const index = start === 0 ? targets : g.sub(targets, start)
    const clipped = g.max(g.min(index, size - 1), 0)
    start += size
    return { weight, index: clipped, inside: g.cast(g.equal(index, clipped), 'float32') }
  })
}

const mask = (g: Graph, value: Value, { inside }: Place) => (inside ? g.mul(value, inside) : value)

/** What the forward pass makes of one chunk with logits z; columns are [n, 1]. */
interface Piece {
  readonly place: Place
  readonly maximum: Value
  /** exp(z - maximum) [n, size], and its sum. */
  readonly exponentials: Value
  readonly total: Value
  /** Sum of exp(z - maximum) * (z - maximum). Undefined where nobody asks for it. */
  readonly weighted: Value | undefined
  /** z of the target, 0 where it is in another chunk. */
  readonly target: Value
}

interface Forward {
  readonly scores: Scores
  /** [n, 1] */
  readonly inverseTemperature: Value
  /** [n, 1], of {@link combine}; its logarithm. */
  readonly total: Value
  readonly logTotal: Value
  readonly pieces: readonly Piece[]
}

/** @param weighted whether pieces get their weighted sums. */
function forward(g: Graph, hidden: Value, chunks: readonly Value[], inputs: HeadInputs, weighted: boolean): Forward {
  const column = (value: Value) => g.reshape(value, ['n', 1])
  const flat = (value: Value) => g.reshape(value, ['n'])
  const inverseTemperature = column(inputs.inverseTemperature)
  const pieces: Piece[] = []
  for (const place of placeChunks(g, chunks, column(inputs.targets))) {
    const scale = after(g, inverseTemperature, made(pieces.at(-1)))
    pieces.push(forwardChunk(g, g.mul(hidden, scale), place, weighted))
  }
  const { maximum, total } = combine(g, pieces)
  const logTotal = g.log(total)
  const logSumExp = g.add(maximum, logTotal)
  const target = pieces.map((piece) => piece.target).reduce((sum, part) => g.add(sum, part))
  const scores = { logprobs: flat(g.sub(target, logSumExp)), logSumExp: flat(logSumExp) }
  return { scores, inverseTemperature, total, logTotal, pieces }
}

/** All that is made of the logits of a chunk. */
const made = (piece: Piece | undefined): Value[] =>
  piece ? [piece.total, piece.target, ...(piece.weighted ? [piece.weighted] : [])] : []

function forwardChunk(g: Graph, scaled: Value, place: Place, weighted: boolean): Piece {
  const perRow = { axes: [1], keepDims: true }
  const logits = g.gemm(scaled, place.weight, undefined, { transB: true })
  const chosen = g.gatherElements(logits, place.index)
  // The maximum is not above it; the detour has the target read first, so that what follows can have the memory of the logits.
  const maximum = g.max(g.reduceMax(logits, perRow), chosen)
  const shifted = g.sub(logits, maximum)
  const exponentials = g.exp(shifted)
  return {
    place,
    maximum,
    exponentials,
    total: g.reduceSum(exponentials, perRow),
    weighted: weighted ? rowDots(g, exponentials, shifted) : undefined,
    target: mask(g, chosen, place),
  }
}

/** Dot products of the rows of two matrices [n, size] -> [n, 1]. The elementwise product is never stored. */
function rowDots(g: Graph, a: Value, b: Value): Value {
  const rows = (value: Value) => g.reshape(value, ['n', 1, value.shape[1]!])
  return g.reshape(g.matmul(rows(a), g.transposeLast(rows(b))), ['n', 1])
}

type Sums = Pick<Piece, 'maximum' | 'total' | 'weighted'>

/** The maximum over all chunks, and the sums relative to it. */
function combine(g: Graph, pieces: readonly Sums[]): Sums {
  return pieces.reduce((left, right) => {
    const maximum = g.max(left.maximum, right.maximum)
    const [a, b] = [left, right].map((piece) => {
      const fall = g.sub(piece.maximum, maximum)
      const rescale = g.exp(fall)
      const weighted = piece.weighted && g.mul(rescale, g.add(piece.weighted, g.mul(piece.total, fall)))
      return { total: g.mul(rescale, piece.total), weighted }
    }) as [Omit<Sums, 'maximum'>, Omit<Sums, 'maximum'>]
    const weighted = a.weighted && b.weighted && g.add(a.weighted, b.weighted)
    return { maximum, total: g.add(a.total, b.total), weighted }
  })
}

/**
 * `column` [n, 1], but not before the matrices `others` are computed. onnxruntime runs what does not depend on each
 * other in an order of its own; without this it keeps the logits of all chunks at once.
 */
function after(g: Graph, column: Value, others: readonly Value[]): Value {
  if (others.length === 0) return column
  const first = (value: Value, axis: number) => g.slice(value, { axis, start: 0, end: 1 })
  const corners = others.map((value) => first(first(value, 0), 1))
  const joined = g.concat([column, ...corners], { axis: 0, size: 'n_with_corners' })
  return g.slice(joined, { axis: 0, start: 0, end: -others.length, size: 'n' })
}

/** Whether a value is a frozen weight, or made of frozen weights only. */
function isFrozen(value: Value): boolean {
  if (value.role !== 'result') return value.role === 'weight' || value.role === 'constant'
  return value.producer!.inputs.every((input) => !input || isFrozen(input))
}

interface HeadForward extends Forward {
  readonly hidden: Value
}

class HeadBackward {
  private readonly g: Graph
  private readonly forward: HeadForward

  constructor(g: Graph, forward: HeadForward) {
    this.g = g
    this.forward = forward
  }

  run(dLogprobs: Value): HeadGradients {
    const { g } = this
    const { hidden, pieces, inverseTemperature, total } = this.forward
    const scale = g.mul(g.reshape(dLogprobs, ['n', 1]), inverseTemperature)
    // Of a single chunk, p = exponentials / total: the division goes to the small side as well.
    const share = pieces.length === 1 ? g.div(scale, total) : scale
    const drawn = g.mul(hidden, scale)
    const spread = share === scale ? drawn : g.mul(hidden, share)
    const chunks: (Value | undefined)[] = []
    let mean: Value | undefined
    let chosen: Value | undefined
    let done: readonly Value[] = made(pieces.at(-1))
    for (const { place, exponentials } of pieces) {
      const p = pieces.length === 1 ? exponentials : this.probabilities(place, done)
      mean = g.gemm(p, place.weight, mean)
      const own = mask(g, g.gather(place.weight, g.reshape(place.index, ['n'])), place)
      chosen = chosen ? g.add(chosen, own) : own
      const pushed = isFrozen(place.weight) ? undefined : g.gemm(p, spread, undefined, { transA: true, alpha: -1 })
      chunks.push(pushed && g.scatterND(pushed, place.index, mask(g, drawn, place), { reduction: 'add' }))
      done = pushed ? [mean, pushed] : [mean]
    }
    // The rest of the backward pass waits for the last chunk, whose memory it can then have.
    const waiting = g.sub(g.mul(chosen!, after(g, scale, done)), g.mul(mean!, share))
    return { hidden: waiting, chunks, entropy: this.entropy(mean!) }
  }

  /** @param mean sum of p W, or of exp(z - maximum) W of a single chunk. */
  private entropy(mean: Value): Value {
    const { g } = this
    const { hidden, pieces, inverseTemperature, total, scores } = this.forward
    const dots = g.mul(g.reduceSum(g.mul(hidden, mean), { axes: [1], keepDims: true }), inverseTemperature)
    const meanLogit = pieces.length === 1 ? g.div(dots, total) : dots
    return g.max(g.sub(scores.logSumExp, g.reshape(meanLogit, ['n'])), 0)
  }

  private probabilities(place: Place, done: readonly Value[]): Value {
    const { g } = this
    const { hidden, inverseTemperature, scores } = this.forward
    const scaled = g.mul(hidden, after(g, inverseTemperature, done))
    const logSumExp = g.reshape(scores.logSumExp, ['n', 1])
    return g.exp(g.gemm(scaled, place.weight, g.neg(logSumExp), { transB: true }))
  }
}
