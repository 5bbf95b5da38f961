import { DisposedError, StaleSamplerError } from '@selfplay/engine'
import type { CallOptions, SampledSequence, SampleRequest, SamplingClient } from '@selfplay/engine'
import type { GenerationEngine } from './engine.js'

/** What a live sampler passes its calls on to, with the version that it means. */
type VersionedEngine = Pick<GenerationEngine, 'contextLength' | 'sample' | 'logprobs'>

export function staleError(version: number, now: number): StaleSamplerError {
  return new StaleSamplerError(
    `this sampler reads the weights of step ${version}, but they are at step ${now} now: ask the training client for a new sampler`,
    { version, now },
  )
}

/** The weights of one version, as long as they last. */
export class LiveSampler implements SamplingClient {
  readonly policyVersion: number
  readonly #engine: VersionedEngine
  readonly #disposal = new AbortController()

  constructor(engine: VersionedEngine, version: number) {
    this.#engine = engine
    this.policyVersion = version
  }

  get contextLength(): number {
    return this.#engine.contextLength
  }

  async sample(request: SampleRequest, options: CallOptions = {}): Promise<SampledSequence[]> {
    return this.#engine.sample(request, { signal: this.#signal(options.signal) }, this.policyVersion)
  }

  async logprobs(
    tokens: Int32Array,
    options: CallOptions & { readonly temperature?: number } = {},
  ): Promise<Float32Array> {
    return this.#engine.logprobs(tokens, { ...options, signal: this.#signal(options.signal) }, this.policyVersion)
  }

  async dispose(): Promise<void> {
    this.#disposal.abort(new DisposedError('the sampler was disposed'))
  }

  #signal(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#disposal.signal]) : this.#disposal.signal
  }
}
