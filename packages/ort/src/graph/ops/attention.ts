import { sameDim } from '../dims.js'
import { float, int, type Op, type Site } from '../ir.js'
import type { Dim, DType } from '../types.js'
import { like } from './inference.js'

export interface RotaryEmbeddingParams {
  /** Pairs are neighbours (2i, 2i+1) instead of (i, i + d/2). */
  readonly interleaved: boolean
  /** Needed for [batch, seq, hidden] input; for [batch, heads, seq, head] input 0. */
  readonly numHeads: number
  /** How many leading sizes of each head are rotated; 0 for all. */
  readonly rotaryDim: number
}

export interface GroupQueryAttentionParams {
  readonly numHeads: number
  readonly kvNumHeads: number
  /** Default (undefined): 1/sqrt(head size). */
  readonly scale: number | undefined
  readonly doRotary: boolean
  readonly rotaryInterleaved: boolean
  /** Sliding window; -1 for none. */
  readonly localWindowSize: number
  readonly softcap: number
  /** Length of the present key and value buffers. */
  readonly presentLength: Dim
}

const heads: readonly DType[] = ['float32', 'float16', 'bfloat16']

function checkRotary(site: Site<RotaryEmbeddingParams>): void {
  const x = site.input(0)
  const positions = site.input(1)
  const cos = site.input(2)
  const sin = site.input(3)
  const { numHeads, rotaryDim } = site.params
  const rank = x.shape.length
  if (rank !== 3 && rank !== 4) site.fail('the input must be [batch, seq, hidden] or [batch, heads, seq, head]')
  if (rank === 3 && !(numHeads > 0)) site.fail('three-dimensional input needs numHeads')
  const last = x.shape.at(-1)!
  const head = typeof last === 'number' ? (rank === 3 ? last / numHeads : last) : undefined
  const rotated = rotaryDim > 0 ? rotaryDim : head
  for (const cache of [cos, sin]) {
    if (cache.shape.length !== 2 || (rotated !== undefined && cache.shape[1] !== rotated / 2)) {
      site.fail(`cos and sin must be [positions, ${rotated === undefined ? 'head / 2' : rotated / 2}]`)
    }
  }
  const seq = x.shape.at(-2)!
  const sequence = rank === 3 ? x.shape[1]! : seq
  const { shape } = positions
  const perRow = shape.length === 2 && sameDim(shape[0]!, x.shape[0]!) && sameDim(shape[1]!, sequence)
  const offset = shape.length === 1 && shape[0] === 1
  if (!perRow && !offset) site.fail('positions must be [batch, seq], or [1] for an offset')
}

const rotaryEmbedding: Op<RotaryEmbeddingParams> = {
  domain: 'com.microsoft',
  since: 1,
  inputTypes: ['T', 'M', 'T', 'T'],
  outputTypes: ['T'],
  types: { T: heads, M: ['int64'] },
  infer: (site) => {
    checkRotary(site)
    return like<RotaryEmbeddingParams>()(site)
  },
  lower: (inputs, { interleaved, numHeads, rotaryDim }) => ({
    inputs,
    attributes: {
      interleaved: int(interleaved),
      ...(numHeads > 0 && { num_heads: int(numHeads) }),
      ...(rotaryDim > 0 && { rotary_embedding_dim: int(rotaryDim) }),
    },
  }),
}

const groupQueryAttention: Op<GroupQueryAttentionParams> = {
  domain: 'com.microsoft',
  since: 1,
  // query, key, value, past key, past value, lengths, total, cos, sin, positions, bias, head sink
  inputTypes: ['T', 'T', 'T', 'T_CACHE', 'T_CACHE', 'M', 'M', 'T', 'T', 'int64', 'T', 'T'],
  outputTypes: ['T', 'T_CACHE', 'T_CACHE'],
  types: { T: heads, T_CACHE: heads, M: ['int32'] },
  infer: (site) => {
    const { numHeads, kvNumHeads, presentLength } = site.params
    const query = site.input(0)
    const { shape, dtype } = query
    if (shape.length !== 3) return site.fail('the query must be [batch, seq, heads * head]')
    const packed = site.inputs[1] === undefined
    const hidden = shape[2]!
    const parts = packed ? numHeads + 2 * kvNumHeads : numHeads
    if (typeof hidden !== 'number' || hidden % parts !== 0 || numHeads % kvNumHeads !== 0) {
      return site.fail(`${hidden} does not divide into ${numHeads} heads on ${kvNumHeads} key heads`)
    }
    const head = hidden / parts
    for (const key of packed ? [] : [site.input(1), site.input(2)]) {
      if (key.shape.at(-1) !== kvNumHeads * head) site.fail(`key and value must end in ${kvNumHeads} * ${head}`)
    }
    for (const past of [site.inputs[3], site.inputs[4]]) {
      const fits =
        !past ||
        (past.shape.length === 4 &&
          past.shape[1] === kvNumHeads &&
          sameDim(past.shape[0]!, shape[0]!) &&
          past.shape[3] === head)
      if (!fits) site.fail(`past key and value must be [${shape[0]}, ${kvNumHeads}, length, ${head}]`)
    }
    const present = [shape[0]!, kvNumHeads, presentLength, head]
    return [
      { dtype, shape: [shape[0]!, shape[1]!, numHeads * head] },
      { dtype: site.inputs[3]?.dtype ?? dtype, shape: present },
      { dtype: site.inputs[4]?.dtype ?? dtype, shape: present },
    ]
  },
  lower: (inputs, params) => ({
    inputs,
    attributes: {
      num_heads: int(params.numHeads),
      kv_num_heads: int(params.kvNumHeads),
      do_rotary: int(params.doRotary),
      rotary_interleaved: int(params.rotaryInterleaved),
      local_window_size: int(params.localWindowSize),
      softcap: float(params.softcap),
      ...(params.scale !== undefined && { scale: float(params.scale) }),
    },
  }),
}

export const attention = {
  RotaryEmbedding: rotaryEmbedding,
  GroupQueryAttention: groupQueryAttention,
} satisfies Record<string, Op<never>>
