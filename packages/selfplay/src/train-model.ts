import { join } from 'node:path'
import type { CallOptions, TrainingClient } from '@selfplay/engine'
import type { Renderer } from '@selfplay/renderers'
import { ConfigError, type RunTarget } from '@selfplay/trainer'
import { loadAgents, type LoadAgentsOptions } from './agents.js'

/** What stands in the place of the client of a training loop. */
export interface ModelChoice {
  /**
   * `bundled:tiny`, a local folder or a hub name, as `loadAgents` takes it; or a client that is loaded already, which keeps what
   * it has learnt and is not disposed of.
   */
  readonly model: string | TrainingClient
  /** How a model that is given by name is loaded: adapters, threads, context length, ... Default: all weights are trained. */
  readonly load?: Omit<LoadAgentsOptions, 'renderer' | 'signal'>
}

export interface TrainedModel {
  /** Folder of the trained model, `model/` in the run folder; null when a client was given. */
  readonly model: string | null
}

/** Where a run puts the model that it has trained. */
const MODEL = 'model'

interface LoopConfig {
  readonly client: TrainingClient
  readonly renderer?: string | Renderer
  readonly run?: string | RunTarget
}

/** Runs a training loop on a model that is loaded for it and exported after it, or on a client as it is. */
export async function trainModel<C extends LoopConfig, R>(
  config: Omit<C, 'client'> & ModelChoice,
  train: (config: C, options: CallOptions) => Promise<R>,
  options: CallOptions,
): Promise<R & TrainedModel> {
  const { model, load, ...rest } = config
  const { run } = rest as Pick<LoopConfig, 'run'>
  const withClient = (client: TrainingClient, renderer?: Renderer) =>
    train({ ...(renderer && { renderer }), ...rest, client } as unknown as C, options)
  if (typeof model !== 'string') {
    if (load) throw new ConfigError('load says how a model is loaded, but model is a client already: leave load out')
    return { ...(await withClient(checked(model), rendererOf(model))), model: null }
  }
  if (run === undefined) {
    throw new ConfigError(
      `run: expected a folder, since "${model}" is loaded here and would be lost after the training`,
      { model },
    )
  }
  const [client] = await loadAgents(model, 1, { ...load, ...options })
  try {
    const result = await withClient(client!)
    const folder = join(typeof run === 'string' ? run : run.directory, MODEL)
    await client!.exportModel(folder, options)
    return { ...result, model: folder }
  } finally {
    await client!.dispose()
  }
}

const rendererOf = (client: TrainingClient): Renderer | undefined =>
  (client as (TrainingClient & { readonly renderer?: Renderer }) | undefined)?.renderer

function checked(model: TrainingClient | undefined): TrainingClient {
  if (typeof model === 'object' && model !== null) return model
  throw new ConfigError(`model: expected bundled:tiny, a folder, a hub name or a training client, got ${String(model)}`)
}
