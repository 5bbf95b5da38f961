import { NonFiniteError, type OptimStepOptions } from '@selfplay/engine'
import { graph, type Value } from '../graph/index.js'
import type { Runtime, Session, SessionOptions, Tensor } from '../runtime/types.js'
import { disposeAll, type Companions, type Parameter } from './parameters.js'

/** Numbers updated per run: the temporaries of a run stay in the processor's cache. */
const CHUNK = 1 << 18

/**
 * Tensors below this size are too short for a run of their own, whose overhead is that of some 30,000 numbers: sums of them are
 * taken here, and the optimiser steps them side by side in one scratch.
 */
const SMALL = 1 << 15
/**
 * Sums of fewer numbers are taken on this thread, in well under a millisecond: to ask another one takes a tenth of one where a core is
 * idle, and several where all of them are busy with passes.
 */
const HERE = 1 << 20

/** A parameter's weight, gradient and two moments. */
type Quadruple<T> = readonly [T, T, T, T]
const GRADIENT = 1

type Tensors = readonly Tensor<'float32'>[]
type Arrays = readonly Float32Array[]

/**
 * Lists of tensors (one per parameter: its weight, its gradient, ...) with those that follow each other in memory, in all
 * columns alike, joined: a small model is one list then. Undefined for tensors that lie on a device.
 */
function joined(lists: readonly Tensors[]): Arrays[] | undefined {
  const found: Arrays[] = []
  for (const tensors of lists) {
    const arrays = tensors.flatMap(({ data }) => data ?? [])
    if (arrays.length < tensors.length) return undefined
    const before = found.at(-1)
    if (before && arrays.every((array, part) => follows(before[part]!, array))) {
      const join = (array: Float32Array, part: number) =>
        new Float32Array(array.buffer, before[part]!.byteOffset, before[part]!.length + array.length)
      found[found.length - 1] = arrays.map(join)
    } else found.push(arrays)
  }
  return found
}

const follows = (before: Float32Array, { buffer, byteOffset }: Float32Array): boolean =>
  buffer === before.buffer && byteOffset === before.byteOffset + before.byteLength

/** Visits each part of each parameter with its place among the others of its kind. */
function place(
  all: readonly Quadruple<Float32Array>[],
  visit: (values: Float32Array, part: number, at: number) => void,
): void {
  let at = 0
  for (const parts of all) {
    parts.forEach((values, part) => visit(values, part, at))
    at += parts[0].length
  }
}

/** The scalars of one step, in the order in which the graph declares them. */
const SCALARS = ['gradScale', 'beta1', 'oneMinusBeta2', 'beta2', 'stepSize', 'secondScale', 'epsilon', 'decay'] as const
type Scalars = Record<(typeof SCALARS)[number], number>

/**
 * Elementwise arithmetic on whole parameter sets, run by onnxruntime in place: sums, norms, and AdamW (Loshchilov & Hutter
 * 2019, algorithm 2, with bias correction as in Kingma & Ba 2015).
 */
export class ParameterMath {
  readonly #runtime: Runtime
  readonly #adam: Session
  readonly #add: Session
  readonly #squares: Session

  private constructor(runtime: Runtime, [adam, add, squares]: readonly [Session, Session, Session]) {
    this.#runtime = runtime
    this.#adam = adam
    this.#add = add
    this.#squares = squares
  }

  /** @param arena see `SessionOptions`. */
  static async create(runtime: Runtime, arena: SessionOptions['arena'] = true): Promise<ParameterMath> {
    const { adam: a, add: b, squares: c } = updateGraphs()
    const sessions = [a, b, c].map((outputs) =>
      runtime.createSession(Object.values(outputs)[0]!.graph.outputs(outputs), { concurrent: true, arena }),
    )
    const [adam, add, squares] = await Promise.all(sessions)
    return new ParameterMath(runtime, [adam!, add!, squares!])
  }

  /** `into += from`, tensor by tensor. */
  async add(into: Companions, from: Companions): Promise<void> {
    for (const tensors of this.#lists([...into].map(([name, tensor]) => [tensor, from.get(name)!]))) {
      const [sum, other] = tensors as [Tensor<'float32'>, Tensor<'float32'>]
      if (sum.data && other.data && sum.size < SMALL) addHere(sum.data, other.data)
      else await this.#addFlat(sum, other)
    }
  }

  /** A sum in place has no temporaries: nothing is gained by chunks. */
  async #addFlat(into: Tensor<'float32'>, from: Tensor<'float32'>): Promise<void> {
    const [sum, other] = [into, from].map((tensor) => this.#runtime.view(tensor, 0, [tensor.size])) as [Tensor, Tensor]
    const feeds = { a: sum, b: other }
    if (into.size < HERE) runHere(this.#add, feeds, { sum })
    else await this.#add.run(feeds, { sum })
    disposeAll([sum, other])
  }

  /** L2 norm of everything together: the squares of small models are summed in float64, those of a chunk of a large one in float32. */
  async norm(tensors: Companions): Promise<number> {
    let total = 0
    for (const [tensor] of this.#lists([...tensors.values()].map((one) => [one]))) {
      total += tensor!.data && tensor!.size < HERE ? exactSquares(tensor!.data) : await this.#squaresOf(tensor!)
    }
    return Math.sqrt(total)
  }

  async #squaresOf(tensor: Tensor<'float32'>): Promise<number> {
    const out = this.#runtime.allocate('float32', [1])
    let total = 0
    for (const [x] of this.#chunks(tensor)) {
      await this.#squares.run({ x: x! }, { sum: out })
      const [sum] = await out.read()
      total += Number.isFinite(sum) ? sum! : exactSquares(await x!.read())
    }
    out.dispose()
    return total
  }

  /**
   * One AdamW step in place: weights, both moments.
   *
   * @param t number of this step, from 1.
   * @returns the gradient's norm before clipping.
   * @throws NonFiniteError when that norm, clipped, is NaN, or its square no number of float32; nothing is changed then.
   */
  async step(
    parameters: readonly Parameter[],
    state: { readonly gradients: Companions; readonly m: Companions; readonly v: Companions },
    t: number,
    options: Required<OptimStepOptions>,
  ): Promise<number> {
    const gradNorm = await this.norm(state.gradients)
    const values = adamScalars(gradNorm, t, options)
    // An infinite second moment would keep its weight from ever moving again.
    if (!Number.isFinite(Math.fround((gradNorm * values.gradScale) ** 2))) {
      const overflows = Number.isFinite(gradNorm)
        ? ', whose square overflows float32 (maxGradNorm would scale it down)'
        : ''
      throw new NonFiniteError(
        `the gradient's norm is ${gradNorm} at optimiser step ${t}${overflows}: weights are unchanged`,
        { step: t, parameter: await firstNonFinite(state.gradients) },
      )
    }
    const scalars = this.#scalars(values)
    const all = parameters.map(
      ({ name, weight }) => [weight, state.gradients.get(name)!, state.m.get(name)!, state.v.get(name)!] as const,
    )
    const short: Quadruple<Float32Array>[] = []
    for (const tensors of this.#lists(all)) {
      const arrays = tensors.flatMap(({ data }) => data ?? [])
      if (arrays.length === tensors.length && tensors[0]!.size < SMALL) {
        short.push(arrays as unknown as Quadruple<Float32Array>)
        continue
      }
      for (const views of this.#chunks(...tensors))
        await this.#update(views as unknown as Quadruple<Tensor<'float32'>>, scalars)
    }
    await this.#updateShort(short, scalars)
    disposeAll(Object.values(scalars))
    return gradNorm
  }

  /** The lists, with those that follow each other in memory joined to flat tensors. */
  #lists(lists: readonly Tensors[]): Tensors[] {
    const flat = (array: Float32Array) => this.#runtime.tensor('float32', array, [array.length])
    return joined(lists)?.map((arrays) => arrays.map(flat)) ?? [...lists]
  }

  async #update([p, g, m, v]: Quadruple<Tensor<'float32'>>, scalars: Record<string, Tensor>): Promise<void> {
    await this.#adam.run({ p, g, m, v, ...scalars }, { p_next: p, m_next: m, v_next: v })
  }

  /** Short tensors side by side, as many as fill a chunk; weights and moments are copied back. */
  async #updateShort(all: readonly Quadruple<Float32Array>[], scalars: Record<string, Tensor>): Promise<void> {
    let first = 0
    while (first < all.length) {
      let [end, length] = [first, 0]
      while (end < all.length && length + all[end]![0].length <= CHUNK) length += all[end++]![0].length
      const scratch = [0, 1, 2, 3].map(() => this.#runtime.allocate('float32', [length])) as unknown as Quadruple<
        Tensor<'float32'>
      >
      place(all.slice(first, end), (values, part, at) => scratch[part]!.data!.set(values, at))
      await this.#update(scratch, scalars)
      place(all.slice(first, end), (values, part, at) => {
        if (part !== GRADIENT) values.set(scratch[part]!.data!.subarray(at, at + values.length))
      })
      disposeAll(scratch)
      first = end
    }
  }

  /** Flat views of equal parts of the tensors, chunk by chunk. */
  *#chunks(...tensors: readonly Tensor<'float32'>[]): Generator<Tensor<'float32'>[]> {
    const { size } = tensors[0]!
    for (let at = 0; at < size; at += CHUNK) {
      const length = Math.min(CHUNK, size - at)
      const views = tensors.map((tensor) => this.#runtime.view(tensor, at, [length]))
      yield views
      disposeAll(views)
    }
  }

  #scalars(values: Scalars): Record<string, Tensor> {
    return Object.fromEntries(
      SCALARS.map((name) => [name, this.#runtime.tensor('float32', Float32Array.of(values[name]), [1])]),
    )
  }

  async dispose(): Promise<void> {
    await Promise.all([this.#adam, this.#add, this.#squares].map((session) => session.dispose()))
  }
}

type Fed = Readonly<Record<string, Tensor>>

function runHere(session: Session, inputs: Fed, outputs: Fed): void {
  const bound = session.bind(inputs, outputs)
  try {
    bound.runSync()
  } finally {
    bound.dispose()
  }
}

function adamScalars(gradNorm: number, t: number, options: Required<OptimStepOptions>): Scalars {
  const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm } = options
  return {
    gradScale: maxGradNorm !== null && gradNorm > maxGradNorm ? maxGradNorm / gradNorm : 1,
    beta1,
    beta2,
    oneMinusBeta2: 1 - beta2,
    stepSize: learningRate / (1 - beta1 ** t),
    secondScale: 1 / Math.sqrt(1 - beta2 ** t),
    epsilon,
    decay: 1 - learningRate * weightDecay,
  }
}

/** @internal The graphs behind {@link ParameterMath}, as values by output name. */
export function updateGraphs() {
  return { adam: adamOutputs(), add: addOutputs(), squares: squaresOutputs() } satisfies Record<string, Outputs>
}
type Outputs = Record<string, Value>

function adamOutputs(): Outputs {
  const g = graph()
  const [p, gradient, m, v] = ['p', 'g', 'm', 'v'].map((name) => g.input(name, 'float32', ['n']))
  const s = Object.fromEntries(SCALARS.map((name) => [name, g.input(name, 'float32', [1])]))
  const clipped = g.mul(gradient!, s.gradScale!)
  // g + beta1 (m - g) and not beta1 m + (1 - beta1) g: an equal moment stays equal. Each input is read once, for it is overwritten.
  const mNext = g.add(g.mul(g.sub(m!, clipped), s.beta1!), clipped)
  const vNext = g.add(g.mul(v!, s.beta2!), g.mul(g.mul(clipped, clipped), s.oneMinusBeta2!))
  const denominator = g.add(g.mul(g.sqrt(vNext), s.secondScale!), s.epsilon!)
  const update = g.mul(g.div(mNext, denominator), s.stepSize!)
  return { p_next: g.sub(g.mul(p!, s.decay!), update), m_next: mNext, v_next: vNext }
}

function addOutputs(): Outputs {
  const g = graph()
  return { sum: g.add(g.input('a', 'float32', ['n']), g.input('b', 'float32', ['n'])) }
}

function squaresOutputs(): Outputs {
  const g = graph()
  const x = g.input('x', 'float32', ['n'])
  return { sum: g.reduceSum(g.mul(x, x), { axes: [0], keepDims: true }) }
}

function addHere(sum: Float32Array, other: Float32Array): void {
  for (let i = 0; i < sum.length; i++) sum[i]! += other[i]!
}

/** In float64, four sums at a time: one alone waits for itself. */
function exactSquares(values: Float32Array): number {
  let [a, b, c, d] = [0, 0, 0, 0]
  const whole = values.length - (values.length % 4)
  for (let i = 0; i < whole; i += 4) {
    a += values[i]! * values[i]!
    b += values[i + 1]! * values[i + 1]!
    c += values[i + 2]! * values[i + 2]!
    d += values[i + 3]! * values[i + 3]!
  }
  for (let i = whole; i < values.length; i++) a += values[i]! * values[i]!
  return a + b + (c + d)
}

async function firstNonFinite(tensors: Companions): Promise<string | undefined> {
  for (const [name, tensor] of tensors) {
    if ((await tensor.read()).some((x) => !Number.isFinite(x))) return name
  }
  return undefined
}
