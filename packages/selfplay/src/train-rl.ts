import { join } from 'node:path'
import type { CallOptions, TrainingClient } from '@selfplay/engine'
import type { Renderer } from '@selfplay/renderers'
import { ConfigError, trainRL as trainClient, type RLConfig, type RLResult, type RunTarget } from '@selfplay/trainer'
import { loadAgents, type LoadAgentsOptions } from './agents.js'

/** {@link RLConfig} with a model in place of a client. */
export interface TrainRLConfig extends Omit<RLConfig, 'client'> {
  /**
   * `bundled:tiny`, a local folder or a hub name, as `loadAgents` takes it; or a client that is loaded already, which keeps what
   * it has learnt and is not disposed of.
   */
  readonly model: string | TrainingClient
  /** How a model that is given by name is loaded: adapters, threads, context length, ... Default: all weights are trained. */
  readonly load?: Omit<LoadAgentsOptions, 'renderer' | 'signal'>
}

export interface TrainRLResult extends RLResult {
  /** Folder of the trained model, `model/` in the run folder; null when a client was given. */
  readonly model: string | null
}

/** Where a run puts the model that it has trained. */
const MODEL = 'model'

/**
 * Trains a model on groups of episodes whose rewards are compared within each group. It is loaded with its tokenizer, and what
 * came of it lies in the run folder: `model/` in Hugging Face layout, beside metrics, rollouts, reports and checkpoints.
 *
 * `renderer` may be a name; default: that of a client that has one. A `dataset` that is a function gets the renderer.
 *
 * @throws ConfigError for options that cannot be used; what `loadAgents` throws; the signal's reason when aborted, after a
 *   checkpoint that `run: {directory, resume: true}` goes on from.
 */
export async function trainRL(config: TrainRLConfig, options: CallOptions = {}): Promise<TrainRLResult> {
  const { model, load, ...rest } = config
  if (typeof model !== 'string') {
    if (load) throw new ConfigError('load says how a model is loaded, but model is a client already: leave load out')
    const own = rendererOf(model)
    const result = await trainClient({ ...(own && { renderer: own }), ...rest, client: checked(model) }, options)
    return { ...result, model: null }
  }
  if (rest.run === undefined)
    throw new ConfigError(
      `run: expected a folder, since "${model}" is loaded here and would be lost after the training`,
      {
        model,
      },
    )
  const [client] = await loadAgents(model, 1, { ...load, ...options })
  try {
    const result = await trainClient({ ...rest, client: client! }, options)
    const folder = join(directoryOf(rest.run), MODEL)
    await client!.exportModel(folder, options)
    return { ...result, model: folder }
  } finally {
    await client!.dispose()
  }
}

const directoryOf = (run: string | RunTarget): string => (typeof run === 'string' ? run : run.directory)

const rendererOf = (client: TrainingClient): Renderer | undefined =>
  (client as (TrainingClient & { readonly renderer?: Renderer }) | undefined)?.renderer

function checked(model: TrainingClient | undefined): TrainingClient {
  if (typeof model === 'object' && model !== null) return model
  throw new ConfigError(`model: expected bundled:tiny, a folder, a hub name or a training client, got ${String(model)}`)
}
