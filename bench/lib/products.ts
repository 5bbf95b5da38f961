import { graph, type Runtime, type Tensor } from '@selfplay/ort'

/** Sizes of the matrix product whose rate is the floor of all that multiplies matrices. */
export const [M, K, N] = [512, 896, 4864]
/** Operations of one product: a multiply-add counts two. */
export const PRODUCT_FLOPS = 2 * M * K * N

/** The product of reference, compiled, with its matrices. */
export interface Products {
  /** The best of so many products, flop/s. */
  best(repetitions: number): Promise<number>
  close(): Promise<void>
}

/** Least seconds of many runs. */
export async function leastSeconds(repetitions: number, run: () => Promise<unknown>): Promise<number> {
  let least = Infinity
  for (let i = 0; i < repetitions; i++) {
    const started = performance.now()
    await run()
    least = Math.min(least, performance.now() - started)
  }
  return least / 1000
}

/** A tensor with the same number everywhere. */
export function filled(runtime: Runtime, dims: readonly number[]): Tensor<'float32'> {
  const tensor = runtime.allocate('float32', dims)
  tensor.data!.fill(1 / 64)
  return tensor
}

export async function openProducts(runtime: Runtime): Promise<Products> {
  const g = graph()
  const model = g.outputs({ y: g.matmul(g.input('a', 'float32', [M, K]), g.input('b', 'float32', [K, N])) })
  const session = await runtime.createSession(model)
  const [a, b, y] = [filled(runtime, [M, K]), filled(runtime, [K, N]), filled(runtime, [M, N])]
  return {
    best: async (repetitions) => PRODUCT_FLOPS / (await leastSeconds(repetitions, () => session.run({ a, b }, { y }))),
    async close() {
      await session.dispose()
      for (const tensor of [a, b, y]) tensor.dispose()
    },
  }
}
