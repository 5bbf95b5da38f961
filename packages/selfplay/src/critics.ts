import type { ActorCriticClient, CriticClient } from '@selfplay/engine'
import {
  loadActorCritics as loadValueAgents,
  loadCritic as loadValueClient,
  loadCritics as loadValueClients,
  type LoadActorCriticsOptions as LoadValueAgentsOptions,
  type LoadCriticOptions as LoadValueOptions,
} from '@selfplay/ort'
import type { Renderer, Tokenizer } from '@selfplay/renderers'
import { prepareModel, type LoadAgentsOptions } from './agents.js'

export interface LoadCriticOptions extends LoadValueOptions<Tokenizer> {
  /** Called as a file of a hub model comes in, with bytes. */
  readonly onProgress?: NonNullable<LoadAgentsOptions['onProgress']>
}

export interface LoadActorCriticsOptions
  extends LoadValueAgentsOptions<Tokenizer>, Pick<LoadAgentsOptions, 'renderer' | 'onProgress'> {}

/** A critic with the tokenizer that it reads text by. */
export type LoadedCritic = CriticClient & { readonly tokenizer: Tokenizer }

/** An agent that judges itself. */
export type LoadedActorCritic = ActorCriticClient & { readonly tokenizer: Tokenizer; readonly renderer?: Renderer }

/**
 * Loads a model with a value head, for `MAACTrainer` or as a separate critic of `IACTrainer` ({@link loadCritics} loads
 * one for each agent). A folder that a critic was saved to
 * brings its head; any other model gets a new one.
 *
 * @param source as of `loadAgents`.
 * @throws what `loadAgents` throws; CheckpointError when the head is damaged, newer, or of another model.
 */
export async function loadCritic(source: string, options: LoadCriticOptions = {}): Promise<LoadedCritic> {
  const model = await prepareModel(source, options)
  return Object.assign(await loadValueClient(model.source, model.options), { tokenizer: model.text.tokenizer })
}

/**
 * Loads n critics that start from one model, for the `critics` of `IACTrainer`; with adapters (`training: { rank: 16 }`) they share
 * its frozen weights. Options, heads and errors as of {@link loadCritic}.
 */
export async function loadCritics(
  source: string,
  count: number,
  options: LoadCriticOptions = {},
): Promise<LoadedCritic[]> {
  const model = await prepareModel(source, options)
  const clients = await loadValueClients(model.source, count, model.options)
  return clients.map((client) => Object.assign(client, { tokenizer: model.text.tokenizer }))
}

/** Loads n agents that are their own critics, for `IACTrainer`. */
export async function loadActorCritics(
  source: string,
  count: number,
  options: LoadActorCriticsOptions = {},
): Promise<LoadedActorCritic[]> {
  const model = await prepareModel(source, options)
  const clients = await loadValueAgents(model.source, count, model.options)
  return clients.map((client) => Object.assign(client, model.text))
}
