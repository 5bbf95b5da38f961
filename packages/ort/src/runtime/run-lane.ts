import type { SerialisedModel } from '../graph/index.js'
import { type CApi, LOG_FATAL, type Pointer } from './c-api.js'
import { allocateHost, type HostTensor } from './host-tensor.js'
import { SerialQueue } from './serial.js'

/** What runs that follow one another share: their queue, the tensors of the graph's shape inputs, onnxruntime's run options. */
export class RunLane {
  readonly queue = new SerialQueue()
  readonly shapes: readonly HostTensor<'int64'>[]
  readonly #api: CApi
  readonly #shrink: boolean
  #options: Pointer | undefined

  /** @param shrink whether to give memory back to the system after each run. */
  constructor(api: CApi, shrink: boolean, shapeInputs: SerialisedModel['shapeInputs']) {
    this.#api = api
    this.#shrink = shrink
    this.shapes = shapeInputs.map(({ dims }) => allocateHost('int64', [dims.length]))
  }

  /** Makes one call that runs the graph; the signal ends it between two nodes. */
  async invoke(signal: AbortSignal | undefined, call: (options: Pointer | null) => Promise<void>): Promise<void> {
    const options = this.options(signal !== undefined)
    if (!signal || options === null) return call(options)
    const api = this.#api
    const stop = () => api.call('RunOptionsSetTerminate', options)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await call(options)
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      signal.removeEventListener('abort', stop)
      api.call('RunOptionsUnsetTerminate', options)
    }
    if (signal.aborted) throw signal.reason
  }

  /** Run options, where they are needed for an abort or otherwise; else null, onnxruntime's defaults. */
  options(needed: boolean): Pointer | null {
    if (!needed && !this.#shrink) return null
    if (this.#options === undefined) {
      const options = this.#api.make('CreateRunOptions')
      this.#api.call('RunOptionsSetRunLogSeverityLevel', options, LOG_FATAL)
      if (this.#shrink) this.#api.call('AddRunConfigEntry', options, 'memory.enable_memory_arena_shrinkage', 'cpu:0')
      this.#options = options
    }
    return this.#options
  }

  /** Frees the run options, once nothing runs any more. */
  release(): void {
    if (this.#options !== undefined) this.#api.release('ReleaseRunOptions', this.#options)
    this.#options = undefined
  }
}
