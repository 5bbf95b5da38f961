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

/** What a head computes; each float32 [n]. Parts that nothing reads cost nothing. */
export interface Head {
  /** log p(target). */
  readonly logprobs: Value
  /** Entropy of the whole distribution, in nats. Costs one more pass over the logits. */
  readonly entropy: Value
  /** log of the sum of exp(logits * inverse temperature). */
  readonly logSumExp: Value
  /**
   * Gradients of sum(dLogprobs * logprobs), for dLogprobs float32 [n]: with respect to the hidden rows [n, hidden] and
   * to each chunk of the head matrix.
   */
  backward(dLogprobs: Value): { readonly hidden: Value; readonly chunks: readonly Value[] }
}

/**
 * Log-probs of targets under softmax(invT * h W^T), with a gradient written by hand.
 *
 * With p the softmax and e_t the one-hot target, d logp / d logits = e_t - p. The gradients are taken as
 * dh = invT * dlogp * (W_t - p W) and dW = (e_t - p)^T (dlogp * invT * h), so that row scales go to the small side of each product and
 * no pass over [n, vocabulary] is spent on them. With one chunk, the exponentials of the forward pass are reused. With
 * several, nothing of size [n, vocabulary] lives: the forward pass keeps one number per row, and the backward pass
 * computes each chunk's p anew as exp(h W^T - logSumExp).
 *
 * @param hidden rows after the final norm, float32 [n, hidden]
 * @param chunks the head matrix [vocabulary, hidden], cut into consecutive rows: float32 [size, hidden] each
 */
export function logprobHead(g: Graph, hidden: Value, chunks: readonly Value[], inputs: HeadInputs): Head {
  const column = (value: Value) => g.reshape(value, ['n', 1])
  const flat = (value: Value) => g.reshape(value, ['n'])
  const inverseTemperature = column(inputs.inverseTemperature)
  const scaled = g.mul(hidden, inverseTemperature)
  const targets = column(inputs.targets)
  const pieces = placeChunks(g, chunks, targets).map((place) => forwardChunk(g, scaled, place))
  const { maximum, total } = combine(g, pieces)
  const logTotal = g.log(total)
  const logSumExp = g.add(maximum, logTotal)
  const target = sum(
    g,
    pieces.map(({ place, logits }) => mask(g, g.gatherElements(logits, place.index), place)),
  )
  return {
    logprobs: flat(g.sub(target, logSumExp)),
    get entropy() {
      return flat(g.sub(logTotal, g.div(weightedLogits(g, pieces, maximum), total)))
    },
    logSumExp: flat(logSumExp),
    backward(dLogprobs) {
      const scale = g.mul(column(dLogprobs), inverseTemperature)
      const only = pieces.length === 1 ? pieces[0] : undefined
      // p = exponentials / total: the division goes to the small side as well.
      const share = only ? g.div(scale, total) : scale
      const exponentials = (piece: Piece) =>
        only ? only.exponentials : g.exp(g.gemm(scaled, piece.place.weight, g.neg(logSumExp), { transB: true }))
      return backward(g, pieces, { hidden, scale, share, exponentials })
    },
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
const sum = (g: Graph, values: readonly Value[]) => values.reduce((total, value) => g.add(total, value))

/** What the forward pass makes of one chunk; columns are [n, 1]. */
interface Piece {
  readonly place: Place
  readonly logits: Value
  readonly maximum: Value
  readonly shifted: Value
  readonly exponentials: Value
  readonly total: Value
}

function forwardChunk(g: Graph, scaled: Value, place: Place): Piece {
  const logits = g.gemm(scaled, place.weight, undefined, { transB: true })
  const maximum = g.reduceMax(logits, { axes: [1], keepDims: true })
  const shifted = g.sub(logits, maximum)
  const exponentials = g.exp(shifted)
  return {
    place,
    logits,
    maximum,
    shifted,
    exponentials,
    total: g.reduceSum(exponentials, { axes: [1], keepDims: true }),
  }
}

/** The maximum over all chunks, and the sum of exponentials relative to it. */
function combine(g: Graph, pieces: readonly Piece[]): { readonly maximum: Value; readonly total: Value } {
  const maximum = pieces.map((piece) => piece.maximum).reduce((a, b) => g.max(a, b))
  if (pieces.length === 1) return { maximum, total: pieces[0]!.total }
  return {
    maximum,
    total: sum(
      g,
      pieces.map((piece) => g.mul(piece.total, rise(g, piece, maximum))),
    ),
  }
}

/** exp(chunk's maximum - maximum). */
const rise = (g: Graph, piece: Piece, maximum: Value) => g.exp(g.sub(piece.maximum, maximum))

/** Sum of exp(z - maximum) * (z - maximum) over the vocabulary. */
function weightedLogits(g: Graph, pieces: readonly Piece[], maximum: Value): Value {
  const own = (piece: Piece) => g.reduceSum(g.mul(piece.exponentials, piece.shifted), { axes: [1], keepDims: true })
  if (pieces.length === 1) return own(pieces[0]!)
  return sum(
    g,
    pieces.map((piece) => {
      const moved = g.add(own(piece), g.mul(piece.total, g.sub(piece.maximum, maximum)))
      return g.mul(moved, rise(g, piece, maximum))
    }),
  )
}

interface BackwardParts {
  readonly hidden: Value
  /** dlogp * invT, [n, 1]. */
  readonly scale: Value
  /** `scale`, divided by what turns `exponentials` into probabilities, [n, 1]. */
  readonly share: Value
  readonly exponentials: (piece: Piece) => Value
}

function backward(g: Graph, pieces: readonly Piece[], parts: BackwardParts) {
  const { hidden, scale, share, exponentials } = parts
  const drawn = g.mul(hidden, scale)
  const spread = share === scale ? drawn : g.mul(hidden, share)
  let mean: Value | undefined
  let chosen: Value | undefined
  const chunks = pieces.map((piece) => {
    const { weight, index } = piece.place
    const rows = g.reshape(index, ['n'])
    const weights = exponentials(piece)
    mean = g.gemm(weights, weight, mean)
    const own = mask(g, g.gather(weight, rows), piece.place)
    chosen = chosen ? g.add(chosen, own) : own
    const pushed = g.gemm(weights, spread, undefined, { transA: true, alpha: -1 })
    return g.scatterND(pushed, index, mask(g, drawn, piece.place), { reduction: 'add' })
  })
  return { hidden: g.sub(g.mul(chosen!, scale), g.mul(mean!, share)), chunks }
}
