import type { ModelConfig } from '../models/config.js'
import { cacheHeadDim } from '../models/cached-attention.js'
import { cacheNames } from '../models/decode.js'
import type { Runtime, Tensor } from '../runtime/index.js'
import type { PrefilledPrompt } from './step-model.js'
import { host } from './step-tensors.js'

const FIRST_CAPACITY = 64

/** Keys and values of a prompt, float32 [1, kv heads, length, head] per layer, under the names of the graph's outputs. */
export class PromptCache implements PrefilledPrompt {
  readonly length: number
  readonly tensors: Readonly<Record<string, Tensor>>

  constructor(length: number, tensors: Readonly<Record<string, Tensor>>) {
    this.length = length
    this.tensors = tensors
  }

  /** For a prefill run to write into. */
  static allocate(runtime: Runtime, config: ModelConfig, length: number): PromptCache {
    const dims = [1, config.numKvHeads, length, cacheHeadDim(config)]
    const tensors: Record<string, Tensor> = {}
    for (let layer = 0; layer < config.numLayers; layer++) {
      const { presentKey, presentValue } = cacheNames(layer)
      for (const name of [presentKey, presentValue]) tensors[name] = runtime.allocate('float32', dims)
    }
    return new PromptCache(length, tensors)
  }

  dispose(): void {
    for (const tensor of Object.values(this.tensors)) tensor.dispose()
  }
}

/**
 * Keys and values of all rows, float32 [S, kv heads, capacity, head] per layer. The capacity doubles when a row needs more, up to the
 * longest row there may be; attention reads a row only as far as it is filled, so its results do not depend on the capacity.
 */
export class KvCache {
  readonly #runtime: Runtime
  readonly #config: ModelConfig
  readonly #slots: number
  readonly #longest: number
  readonly #headDim: number
  /** By name of the graph's input. */
  #tensors: Record<string, Tensor<'float32'>> = {}
  #capacity = 0

  constructor(runtime: Runtime, config: ModelConfig, slots: number, longest: number) {
    this.#runtime = runtime
    this.#config = config
    this.#slots = slots
    this.#longest = longest
    this.#headDim = cacheHeadDim(config)
  }

  /** Tokens that fit a row. */
  get capacity(): number {
    return this.#capacity
  }

  /** Views of the first rows as graph inputs and, in place, as outputs; the caller disposes them. */
  bindings(rows: number): { readonly inputs: Record<string, Tensor>; readonly outputs: Record<string, Tensor> } {
    const inputs: Record<string, Tensor> = {}
    const outputs: Record<string, Tensor> = {}
    for (const [name, tensor] of Object.entries(this.#tensors)) {
      inputs[name] = this.#runtime.view(tensor, 0, [rows, ...tensor.dims.slice(1)])
      outputs[name.replace('past', 'present')] = inputs[name]
    }
    return { inputs, outputs }
  }

  /** Makes room for rows of `length` tokens; true when the tensors are others now. */
  reserve(length: number): boolean {
    if (length <= this.#capacity) return false
    let capacity = Math.max(this.#capacity, FIRST_CAPACITY)
    while (capacity < length) capacity *= 2
    capacity = Math.min(capacity, this.#longest)
    const { numKvHeads, numLayers } = this.#config
    const dims = [this.#slots, numKvHeads, capacity, this.#headDim]
    for (let layer = 0; layer < numLayers; layer++) {
      const { pastKey, pastValue } = cacheNames(layer)
      for (const name of [pastKey, pastValue]) {
        const grown = this.#runtime.allocate('float32', dims)
        const old = this.#tensors[name]
        if (old) this.#copyRows(host(old), this.#capacity, host(grown), capacity, this.#slots * numKvHeads)
        old?.dispose()
        this.#tensors[name] = grown
      }
    }
    this.#capacity = capacity
    return true
  }

  /** Copies a prompt into the start of a row. */
  load(slot: number, prompt: PromptCache): void {
    const { numKvHeads } = this.#config
    const start = slot * numKvHeads * this.#capacity * this.#headDim
    for (const [name, tensor] of Object.entries(this.#tensors)) {
      const source = prompt.tensors[name.replace('past', 'present')]
      if (source)
        this.#copyRows(
          host(source as Tensor<'float32'>),
          prompt.length,
          host(tensor).subarray(start),
          this.#capacity,
          numKvHeads,
        )
    }
  }

  /** Copies the first `length` tokens of a row onto another. */
  move(from: number, to: number, length: number): void {
    const { numKvHeads } = this.#config
    const size = this.#capacity * this.#headDim
    for (const tensor of Object.values(this.#tensors)) {
      for (let head = 0; head < numKvHeads; head++) {
        const start = (from * numKvHeads + head) * size
        host(tensor).copyWithin((to * numKvHeads + head) * size, start, start + length * this.#headDim)
      }
    }
  }

  dispose(): void {
    for (const tensor of Object.values(this.#tensors)) tensor.dispose()
    this.#tensors = {}
    this.#capacity = 0
  }

  /** `count` rows of `from` tokens to the starts of rows of `to` tokens. */
  #copyRows(source: Float32Array, from: number, target: Float32Array, to: number, count: number): void {
    const headDim = this.#headDim
    for (let row = 0; row < count; row++) {
      target.set(source.subarray(row * from * headDim, (row + 1) * from * headDim), row * to * headDim)
    }
  }
}
