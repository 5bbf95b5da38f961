import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInputError, type TrainingClient } from '@selfplay/engine'
import { modelPath } from '@selfplay/model-tiny'
import {
  loadAgents as loadClients,
  loadTrainingClient as loadClient,
  resolveModel,
  type LoadAgentsOptions as LoadClientsOptions,
  type LoadOptions as LoadClientOptions,
  type ResolveModelOptions,
} from '@selfplay/ort'
import { getRenderer, getTokenizer, type Renderer, type Tokenizer } from '@selfplay/renderers'

interface TextChoice {
  /**
   * Lays out prompts that are messages and reads the answers: a renderer, or the name of one, e.g. `chatml`. Default: none,
   * prompts are plain text.
   */
  readonly renderer?: string | Renderer
  /** Called as a file of a hub model comes in, with bytes. */
  readonly onProgress?: NonNullable<ResolveModelOptions['onProgress']>
}

export interface LoadAgentsOptions extends LoadClientsOptions<Tokenizer>, TextChoice {}

export interface LoadOptions extends LoadClientOptions<Tokenizer>, TextChoice {}

/** A training client with all that a trainer needs to speak with it. */
export type LoadedAgent = TrainingClient & { readonly tokenizer: Tokenizer; readonly renderer?: Renderer }

/** Models that come with selfplay, by the name behind `bundled:`. */
const BUNDLED: ReadonlyMap<string, string> = new Map([['tiny', modelPath]])
const PREFIX = 'bundled:'

/**
 * The folder of a bundled model; undefined for any other source.
 * @throws InvalidInputError for a bundled model that there is not.
 */
export function bundledFolder(source: string): string | undefined {
  if (!source.startsWith(PREFIX)) return undefined
  const folder = BUNDLED.get(source.slice(PREFIX.length))
  if (folder !== undefined) return folder
  const known = [...BUNDLED.keys()].map((name) => PREFIX + name).join(', ')
  throw new InvalidInputError(`expected a bundled model (${known}), a folder or a hub name, got "${source}"`, {
    source,
  })
}

/** What all clients of one model are loaded with. */
interface Prepared<O> {
  /** For the training core: a hub model keeps its name, so that what is saved says where it came from. */
  readonly source: string
  readonly options: Omit<O, 'renderer' | 'onProgress' | 'revision' | 'tokenizer' | 'signal'> & {
    readonly tokenizer: Tokenizer
  }
  /** What is put onto each client. */
  readonly text: { readonly tokenizer: Tokenizer; readonly renderer?: Renderer }
}

type TextOptions = Pick<LoadAgentsOptions, 'renderer' | 'onProgress' | 'revision' | 'tokenizer' | 'signal'>

/** @internal Finds a model and its tokenizer, downloading them where they are not here yet. */
export async function prepareModel<O extends TextOptions>(source: string, given: O): Promise<Prepared<O>> {
  const { renderer: rendererOption, onProgress, revision, tokenizer: own, signal, ...rest } = given
  const bundled = bundledFolder(source)
  if (bundled !== undefined && revision !== undefined) {
    throw new InvalidInputError(`${source} has no revisions, got "${revision}": leave it out`, { source, revision })
  }
  if (bundled === undefined) await refuseRun(source)
  const abort = signal ? { signal } : {}
  const pinned = { ...abort, ...(revision !== undefined && { revision }) }
  const folder = bundled ?? (await resolveModel(source, { ...pinned, ...(onProgress && { onProgress }) }))
  const tokenizer = own ?? (await getTokenizer(folder, abort))
  const renderer = typeof rendererOption === 'string' ? getRenderer(rendererOption, tokenizer) : rendererOption
  const text = { tokenizer, ...(renderer && { renderer }) }
  return { source: bundled ?? source, options: { ...rest, ...pinned, tokenizer }, text }
}

/** @throws InvalidInputError for the folder of a run, whose models lie inside it. */
async function refuseRun(source: string): Promise<void> {
  const text = await readFile(join(source, 'config.json'), 'utf8').catch(() => '')
  let config: unknown
  try {
    config = JSON.parse(text)
  } catch {
    return // Not a run: what a model's loader says about it fits better.
  }
  if (typeof (config as { trainer?: unknown } | null)?.trainer !== 'string') return
  const models = (await readdir(source)).filter((name) => /^(agent_\d+|model)$/.test(name)).sort()
  throw new InvalidInputError(
    models.length > 0
      ? `${source} is a run; its models are ${models.join(', ')}: load ${join(source, models[0]!)}, for example`
      : `${source} is a run without models yet: they are saved at its end`,
    { source, models },
  )
}

/**
 * Loads n agents that start from one model, with its tokenizer.
 *
 * @param source `bundled:tiny`, a local folder in Hugging Face layout, or a hub name (`org/name`; needs `@huggingface/hub`).
 * @param count how many agents; `options.mode` says how they share the model (default `separate`: each has its own weights).
 * @throws InvalidInputError, CheckpointError, HubError, UnsupportedModelError, TokenizerError: see the messages.
 */
export async function loadAgents(
  source: string,
  count: number,
  options: LoadAgentsOptions = {},
): Promise<LoadedAgent[]> {
  const model = await prepareModel(source, options)
  const clients = await loadClients(model.source, count, model.options)
  return clients.map((client) => Object.assign(client, model.text))
}

/**
 * Loads one model to train, with its tokenizer: all its weights, or an adapter (`training: { rank: 16 }`).
 *
 * @param source as of {@link loadAgents}.
 * @throws what {@link loadAgents} throws.
 */
export async function loadTrainingClient(source: string, options: LoadOptions = {}): Promise<LoadedAgent> {
  const model = await prepareModel(source, options)
  return Object.assign(await loadClient(model.source, model.options), model.text)
}
