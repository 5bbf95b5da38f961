import { readFile, readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { InvalidInputError, type TrainingClient } from '@selfplay/engine'
import { modelPath } from '@selfplay/model-tiny'
import {
  loadAgents as loadClients,
  loadTrainingClient as loadClient,
  OPTION_NAMES,
  resolveModel,
  type LoadAgentsOptions as LoadClientsOptions,
  type LoadOptions as LoadClientOptions,
  type ResolveModelOptions,
} from '@selfplay/ort'
import { didYouMean, getRenderer, getTokenizer, type Renderer, type Tokenizer } from '@selfplay/renderers'

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
  if (bundled === undefined) await refuseOtherFolders(source)
  const abort = signal ? { signal } : {}
  const pinned = { ...abort, ...(revision !== undefined && { revision }) }
  const folder = bundled ?? (await resolveModel(source, { ...pinned, ...(onProgress && { onProgress }) }))
  const tokenizer = own ?? (await getTokenizer(folder, abort))
  const renderer = typeof rendererOption === 'string' ? getRenderer(rendererOption, tokenizer) : rendererOption
  const text = { tokenizer, ...(renderer && { renderer }) }
  return { source: bundled ?? source, options: { ...rest, ...pinned, tokenizer }, text }
}

/** @throws InvalidInputError for a folder that is no model, and has models inside: one of a run, of saved agents, or of a checkpoint. */
async function refuseOtherFolders(source: string): Promise<void> {
  await refuseCheckpoint(source)
  const text = await readFile(join(source, 'config.json'), 'utf8').catch(() => undefined)
  const run = text !== undefined && isRunConfig(text)
  if (text !== undefined && !run) return
  const models = await modelsIn(source)
  if (!run && models.length === 0) return // What a model's loader says about it fits better.
  const what = run ? 'is a run' : 'holds several models'
  const all = models.map((name) => `'${join(source, name)}'`).join(', ')
  const agents = models.length > 1 ? `, or loadAgents([${all}], ${models.length})` : ''
  throw new InvalidInputError(
    models.length > 0
      ? `${source} ${what}; its models are ${models.join(', ')}: load ${join(source, models[0]!)}, for example${agents}`
      : `${source} is a run without models yet: they are saved at its end`,
    { source, models },
  )
}

function isRunConfig(text: string): boolean {
  try {
    return typeof (JSON.parse(text) as { trainer?: unknown } | null)?.trainer === 'string'
  } catch {
    return false
  }
}

const modelsIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder).catch(() => [])).filter((name) => /^(agent_\d+|model)$/.test(name)).sort()

/** @throws InvalidInputError for a checkpoint of a run, or a part of one: `<run>/checkpoints/step-n/agent_0`. */
async function refuseCheckpoint(source: string): Promise<void> {
  const path = resolve(source)
  const checkpoint = [path, dirname(path)].find(
    (folder) => /^step-\d+$/.test(basename(folder)) && basename(dirname(folder)) === 'checkpoints',
  )
  if (checkpoint === undefined) return
  const run = dirname(dirname(checkpoint))
  const models = await modelsIn(run)
  const own = models.find((name) => name === basename(path)) ?? models[0]
  throw new InvalidInputError(
    `${source} is of a checkpoint, from which a run is resumed, and no model: ` +
      (own === undefined
        ? `resume the run ${run}; its models are saved at its end`
        : `load ${join(run, own)}, the model that the run has saved`),
    { source, run, models },
  )
}

/** A record, so that the compiler keeps it whole. */
const TEXT_NAMES: Readonly<Record<keyof TextChoice, true>> = { renderer: true, onProgress: true }

/** @throws InvalidInputError for an unknown option, with the nearest known one. */
function checkNames(call: string, options: object, own: readonly string[]): void {
  const known = [...own, ...Object.keys(TEXT_NAMES)]
  for (const key of Object.keys(options)) {
    if (!known.includes(key))
      throw new InvalidInputError(`${call} has no option "${key}"${didYouMean(key, known)}`, { option: key, known })
  }
}

/**
 * Loads n agents that start from one model, or each from a model of its own, with their tokenizers.
 *
 * @param source `bundled:tiny`, a local folder in Hugging Face layout, or a hub name (`org/name`; needs `@huggingface/hub`); or a
 *   list of these, one per agent, such as the two models that a run has saved.
 * @param count how many agents; `options.mode` says how they share the model (default `separate`: each has its own weights).
 * @throws InvalidInputError, CheckpointError, HubError, UnsupportedModelError, TokenizerError: see the messages.
 */
export async function loadAgents(
  source: string | readonly string[],
  count: number,
  options: LoadAgentsOptions = {},
): Promise<LoadedAgent[]> {
  checkNames('loadAgents', options, OPTION_NAMES.agents)
  if (typeof source !== 'string') return loadEach(source, count, options)
  const model = await prepareModel(source, options)
  const clients = await loadClients(model.source, count, model.options)
  return clients.map((client) => Object.assign(client, model.text))
}

async function loadEach(sources: readonly string[], count: number, options: LoadAgentsOptions): Promise<LoadedAgent[]> {
  if (!Array.isArray(sources) || sources.length !== count || options.mode === 'shared') {
    const got = Array.isArray(sources) ? `${sources.length} for ${count} agents` : typeof sources
    throw new InvalidInputError(
      `loadAgents: expected a model, or a list of models, one per agent and not mode "shared"; got ${got}`,
      { count },
    )
  }
  const agents: LoadedAgent[] = []
  try {
    for (const source of sources) agents.push(...(await loadAgents(source, 1, options)))
    return agents
  } catch (error) {
    await Promise.all(agents.map((agent) => agent.dispose()))
    throw error
  }
}

/**
 * Loads one model to train, with its tokenizer: all its weights, or an adapter (`training: { rank: 16 }`).
 *
 * @param source as of {@link loadAgents}.
 * @throws what {@link loadAgents} throws.
 */
export async function loadTrainingClient(source: string, options: LoadOptions = {}): Promise<LoadedAgent> {
  checkNames('loadTrainingClient', options, OPTION_NAMES.one)
  const model = await prepareModel(source, options)
  return Object.assign(await loadClient(model.source, model.options), model.text)
}
