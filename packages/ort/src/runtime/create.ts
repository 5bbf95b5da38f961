import { availableParallelism } from 'node:os'
import { InvalidInputError } from '@selfplay/engine'
import type { Provider } from '../graph/index.js'
import { BindingRuntime } from './binding.js'
import { messageOf, RuntimeUnavailableError } from './errors.js'
import { NativeRuntime } from './native.js'
import { checkKeys } from './nearest.js'
import { checkThreads } from './options.js'
import type { Runtime } from './types.js'

export interface RuntimeOptions {
  /** Default `cpu`. */
  readonly provider?: Provider
  /** Threads of a session's pool, the calling one included. Default: as many as the system says there are cores to use. */
  readonly threads?: number
  /**
   * `native`: the C API through koffi. `binding`: onnxruntime-node's own, slower and synchronous.
   * Default: the environment variable SELFPLAY_RUNTIME, else `native` and, where that cannot be loaded, `binding`
   * with the reason in `runtime.fallbackReason`.
   */
  readonly kind?: Runtime['kind']
}

/** Execution providers that this version runs on. */
const PROVIDERS: readonly Provider[] = ['cpu']

/**
 * A runtime: where tensors live and sessions run.
 *
 * @throws RuntimeUnavailableError for a provider that is not there, or a `kind` asked for by name that cannot be loaded;
 *   InvalidInputError for other options.
 */
export async function createRuntime(options: RuntimeOptions = {}): Promise<Runtime> {
  checkKeys('createRuntime', options, ['provider', 'threads', 'kind'])
  const { provider = 'cpu', threads = availableParallelism() } = options
  if (!PROVIDERS.includes(provider)) {
    throw new RuntimeUnavailableError(`provider "${provider}" is not available, only ${PROVIDERS.join(', ')}`, {
      provider,
      available: PROVIDERS,
    })
  }
  checkThreads(threads)
  const kind = options.kind ?? kindFromEnvironment()
  if (kind === 'binding') return BindingRuntime.create(threads)
  if (kind !== undefined && kind !== 'native') {
    throw new InvalidInputError(`kind must be "native" or "binding", got "${String(kind)}"`, { got: kind })
  }
  try {
    return await NativeRuntime.create(threads)
  } catch (error) {
    if (kind === 'native') throw error
    return BindingRuntime.create(threads, messageOf(error))
  }
}

function kindFromEnvironment(): Runtime['kind'] | undefined {
  const kind = process.env['SELFPLAY_RUNTIME']
  if (kind === undefined || kind === '') return undefined
  if (kind === 'native' || kind === 'binding') return kind
  throw new InvalidInputError(`SELFPLAY_RUNTIME must be "native" or "binding", got "${kind}"`, { got: kind })
}
