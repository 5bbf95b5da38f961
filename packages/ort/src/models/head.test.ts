import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ancestors, type Graph, graph, type Node, type Value } from '../graph/index.js'
import { createRuntime, type Runtime } from '../runtime/index.js'
import { headInputs, logprobHead, trainedHead } from './head.js'
import { distance, runOnce } from './testing/fixtures.js'

let runtime: Runtime
beforeAll(async () => {
  runtime = await createRuntime({ threads: 2 })
})
afterAll(() => runtime.dispose())

const [N, H, V] = [7, 5, 23]

/** Numbers in [-1, 1) from a fixed stream. */
function numbers(count: number, seed: number): Float32Array {
  let state = seed
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  })
}

const hidden = numbers(N * H, 1).map((x) => 3 * x)
const matrix = numbers(V * H, 2).map((x) => 3 * x)
const dLogprobs = numbers(N, 3)
const inverseTemperature = Float32Array.from({ length: N }, (_, i) => [1, 1 / 0.7, 0.5][i % 3]!)
const targets = Int32Array.from([0, 22, 5, 11, 5, 7, 8])

/** The same in double precision, written out. */
function reference() {
  const logprobs: number[] = []
  const entropy: number[] = []
  const dHidden = new Float64Array(N * H)
  const dMatrix = new Float64Array(V * H)
  for (let i = 0; i < N; i++) {
    const t = inverseTemperature[i]!
    const dot = (v: number) => hidden.subarray(i * H, (i + 1) * H).reduce((s, x, k) => s + x * matrix[v * H + k]!, 0)
    const logits = Array.from({ length: V }, (_, v) => t * dot(v))
    const total = Math.log(logits.reduce((sum, z) => sum + Math.exp(z), 0))
    const p = logits.map((z) => Math.exp(z - total))
    logprobs.push(logits[targets[i]!]! - total)
    entropy.push(-p.reduce((sum, each) => sum + each * Math.log(each), 0))
    for (let v = 0; v < V; v++) {
      const dLogit = dLogprobs[i]! * ((v === targets[i] ? 1 : 0) - p[v]!) * t
      for (let k = 0; k < H; k++) {
        dHidden[i * H + k]! += dLogit * matrix[v * H + k]!
        dMatrix[v * H + k]! += dLogit * hidden[i * H + k]!
      }
    }
  }
  return { logprobs, entropy, dHidden, dMatrix }
}

const heads = {
  'without a gradient': (g: Graph, rows: Value, chunks: readonly Value[]): Record<string, Value> => {
    const { logprobs, entropy, logSumExp } = logprobHead(g, rows, chunks, headInputs(g))
    return { logprobs, entropy, logSumExp }
  },
  'with a gradient': (g: Graph, rows: Value, chunks: readonly Value[]): Record<string, Value> => {
    const head = trainedHead(g, rows, chunks, headInputs(g))
    const { hidden: dHidden, entropy, chunks: parts } = head.backward(g.input('d_logprobs', 'float32', ['n']))
    const gradients = Object.fromEntries(parts.map((part, i) => [`dChunk_${i}`, part!]))
    return { logprobs: head.logprobs, entropy, logSumExp: head.logSumExp, dHidden, ...gradients }
  },
}
type Kind = keyof typeof heads

async function run(kind: Kind, sizes: readonly number[], scale = 1) {
  const g = graph()
  const rows = g.input('hidden', 'float32', ['n', H])
  const chunks = sizes.map((size, i) => g.parameter(`chunk_${i}`, 'float32', [size, H]))
  const model = g.outputs(heads[kind](g, rows, chunks))
  const starts = sizes.map((_, i) => sizes.slice(0, i).reduce((a, b) => a + b, 0))
  const feeds = {
    hidden: hidden.map((x) => x * scale),
    targets,
    inverse_temperature: inverseTemperature,
    ...(kind === 'with a gradient' && { d_logprobs: dLogprobs }),
    ...Object.fromEntries(
      sizes.map((size, i) => [`chunk_${i}`, matrix.slice(starts[i]! * H, (starts[i]! + size) * H)]),
    ),
  }
  const out = (await runOnce(runtime, model, feeds, { n: N })) as Record<string, ArrayLike<number>>
  if (kind === 'with a gradient') out.dMatrix = sizes.flatMap((_, i) => Array.from(out[`dChunk_${i}`]!))
  return out
}

const kinds = Object.keys(heads) as Kind[]
const cuts = [[V], [11, 12], [5, 6, 1, 11]]

describe.each(kinds.flatMap((kind) => cuts.map((sizes) => [kind, sizes] as const)))(
  '%s, chunks of %j',
  (kind, sizes) => {
    it('gives log-probs, entropy and gradients of a softmax at each temperature', async () => {
      const out = await run(kind, sizes)
      const want = reference()
      expect(distance(out.logprobs!, want.logprobs)).toBeLessThan(2e-6)
      // With a gradient it is a difference of numbers as large as the logits, 30 here.
      expect(distance(out.entropy!, want.entropy)).toBeLessThan(kind === 'with a gradient' ? 1e-5 : 2e-6)
      if (kind === 'without a gradient') return
      expect(distance(out.dHidden!, want.dHidden)).toBeLessThan(2e-6)
      expect(distance(out.dMatrix!, want.dMatrix)).toBeLessThan(2e-6)
    })

    it('stays finite where logits are far apart', async () => {
      const out = await run(kind, sizes, 1000)
      for (const values of Object.values(out)) expect(Array.from(values).every(Number.isFinite)).toBe(true)
      expect(Math.max(...Array.from(out.logprobs!))).toBeLessThanOrEqual(0)
      expect(Math.min(...Array.from(out.logprobs!))).toBeLessThan(-1000)
      expect(Math.min(...Array.from(out.entropy!))).toBeGreaterThanOrEqual(0)
    })
  },
)

const isLogits = ({ inputs, op, params }: Node) =>
  op === 'Gemm' && (params as { transB?: boolean }).transB === true && inputs[1]?.name.startsWith('chunk_') === true

function build(kind: Kind, chunks: readonly ('parameter' | 'weight')[]) {
  const g = graph()
  const values = chunks.map((role, i) => g[role](`chunk_${i}`, 'float32', [6 + i, H]))
  const outputs = heads[kind](g, g.input('hidden', 'float32', ['n', H]), values)
  const made = Object.values(outputs).filter((value) => value !== undefined)
  return { outputs, nodes: ancestors(made) }
}

describe('the graph of a head', () => {
  it.each(kinds)(
    '%s holds the logits of one chunk at a time: the next ones wait for all that is made of them',
    (kind) => {
      const { nodes } = build(kind, ['parameter', 'parameter', 'parameter'])
      const logits = nodes.filter(isLogits)
      expect(logits.length).toBe(kind === 'with a gradient' ? 6 : 3)
      logits.slice(1).forEach((next, i) => {
        const before = new Set(ancestors(next.outputs))
        const earlier = logits[i]!.outputs[0]!
        const size = earlier.shape[1]
        const large = nodes.filter(({ id, outputs }) => id <= next.id && outputs[0]!.shape.at(-1) === size)
        const readers = nodes.filter(({ inputs }) =>
          inputs.some((input) => large.some((one) => one.outputs[0] === input)),
        )
        const late = readers.filter((node) => node.id < next.id && !before.has(node))
        expect(late.map(({ op }) => op)).toEqual([])
      })
    },
  )

  it('with a gradient makes the exponentials where the logits were: nothing reads what a step overwrites after it', () => {
    const { nodes } = build('with a gradient', ['parameter'])
    const readersOf = (node: Node) => nodes.filter(({ inputs }) => inputs.includes(node.outputs[0]!))
    const logits = nodes.find(isLogits)!
    const shifted = readersOf(logits).find(({ op }) => op === 'Sub')!
    const before = new Set(ancestors(shifted.outputs))
    expect(readersOf(logits).filter((reader) => !before.has(reader))).toEqual([])
    expect(readersOf(shifted).map(({ op }) => op)).toEqual(['Exp'])
  })

  it('spends nothing on the gradient of frozen chunks', () => {
    const { outputs, nodes } = build('with a gradient', ['weight', 'parameter'])
    expect([outputs.dChunk_0?.shape, outputs.dChunk_1?.shape]).toEqual([undefined, [7, H]])
    const products = nodes.filter((node) => node.op === 'Gemm' && (node as Node<'Gemm'>).params.transA)
    expect(products.length).toBe(1)
  })
})
