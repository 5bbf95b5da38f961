import type { ModelConfig } from '../models/config.js'
import { attentionMask, maskName, ropeRows } from '../models/decoder.js'
import type { RopeTables } from '../models/rope.js'
import type { Runtime, Session, Tensor } from '../runtime/index.js'
import { hiddenGraph, scoreGraph } from './graphs.js'
import type { SessionFactory } from './sessions.js'

/** Most logits that are in memory at a time. */
const LOGITS = 1 << 22

interface Sessions {
  readonly version: number
  readonly hidden: Session
  readonly head: Session
  /** Weights among the inputs of each. */
  readonly weights: Readonly<Record<'hidden' | 'head', Readonly<Record<string, Tensor>>>>
}

export interface ScorerOptions {
  readonly runtime: Runtime
  readonly config: ModelConfig
  readonly sessions: SessionFactory
}

/**
 * Log-probs of given tokens: the forward pass of training, all positions at once, and the output head in blocks of positions so that
 * no more than 4 M logits are in memory. One call at a time.
 */
export class Scorer {
  readonly #options: ScorerOptions
  readonly #ropes: () => RopeTables
  #open: Sessions | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: ScorerOptions, ropes: () => RopeTables) {
    this.#options = options
    this.#ropes = ropes
  }

  /** Log-probs of `tokens[1..]` under the weights of `version`, float32 [T - 1]. */
  score(tokens: Int32Array, inverseTemperature: number, version: number, signal?: AbortSignal): Promise<Float32Array> {
    return this.#inTurn(async () => {
      signal?.throwIfAborted()
      const sessions = await this.#sessions(version)
      const { hidden } = await sessions.hidden.run(
        { ...this.#inputs(tokens.subarray(0, -1)), ...sessions.weights.hidden },
        { hidden: null },
        signal ? { signal } : {},
      )
      try {
        return await this.#logprobs(sessions, hidden as Tensor, tokens, inverseTemperature, signal)
      } finally {
        hidden?.dispose()
      }
    })
  }

  /** Disposes its sessions once the calls before are done. */
  release(): Promise<void> {
    return this.#inTurn(() => this.#close())
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }

  async #logprobs(
    { head, weights }: Sessions,
    hidden: Tensor,
    tokens: Int32Array,
    inverseTemperature: number,
    signal: AbortSignal | undefined,
  ): Promise<Float32Array> {
    const { runtime, config } = this.#options
    const logprobs = new Float32Array(tokens.length - 1)
    const block = Math.max(1, Math.floor(LOGITS / config.vocabSize))
    for (let start = 0; start < logprobs.length; start += block) {
      const n = Math.min(block, logprobs.length - start)
      const feeds = {
        hidden: runtime.view(hidden, start * config.hiddenSize, [n, config.hiddenSize]),
        targets: runtime.tensor('int32', tokens.slice(start + 1, start + 1 + n), [n]),
        inverse_temperature: runtime.tensor('float32', new Float32Array(n).fill(inverseTemperature), [n]),
      }
      const out = runtime.view(runtime.tensor('float32', logprobs, [logprobs.length]), start, [n])
      await head.run({ ...feeds, ...weights.head }, { logprobs: out }, signal ? { signal } : {})
      for (const tensor of [...Object.values(feeds), out]) tensor.dispose()
    }
    return logprobs
  }

  async #sessions(version: number): Promise<Sessions> {
    const { config, sessions } = this.#options
    if (this.#open && sessions.outdated(this.#open.version, version)) await this.#close()
    if (this.#open) return this.#open
    const models = {
      hidden: sessions.graph('hidden', (weights) => hiddenGraph(config, weights)),
      head: sessions.graph('score', (weights) => scoreGraph(config, weights)),
    }
    const hidden = await sessions.create(models.hidden, version)
    const head = await sessions.create(models.head, version)
    const weights = { hidden: sessions.inputs(models.hidden), head: sessions.inputs(models.head) }
    this.#open = { version, hidden, head, weights }
    return this.#open
  }

  async #close(): Promise<void> {
    await Promise.all([this.#open?.hidden.dispose(), this.#open?.head.dispose()])
    this.#open = undefined
  }

  #inputs(tokens: Int32Array): Record<string, Tensor> {
    const seq = tokens.length
    const half = this.#options.config.headDim / 2
    const { cos, sin } = ropeRows(this.#ropes(), seq)
    const masks = [...new Set(this.#options.config.windows)].map((window) => [
      maskName(window),
      this.#options.runtime.tensor('float32', attentionMask(seq, window), [seq, seq]),
    ])
    return {
      ...(Object.fromEntries(masks) as Record<string, Tensor>),
      tokens: this.#options.runtime.tensor('int32', tokens.slice(), [1, seq]),
      rope_cos: this.#options.runtime.tensor('float32', cos, [seq, half]),
      rope_sin: this.#options.runtime.tensor('float32', sin, [seq, half]),
    }
  }
}
