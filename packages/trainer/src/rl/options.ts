import type { SamplingClient, TrainingClient } from '@selfplay/engine'
import type { GroupRunOptions, RLDataset } from '@selfplay/env'
import { getRenderer, type Renderer, type Tokenizer } from '@selfplay/renderers'
import { z } from 'zod'
import { checkAnswerLength } from '../check-answer-length.js'
import { ConfigError } from '../errors.js'
import { checkEvaluators, type Evaluator } from '../evaluate/evaluator.js'
import { lockSchema } from '../run/check-outside.js'
import type { RunNotice } from '../run/loop-session.js'
import type { RunTarget } from '../run/resume.js'
import { parseStrict } from '../strict-config.js'
import type { Tracker } from '../track/tracker.js'
import { checkRLSettings, rlSettings, type RLSettings, type ResolvedRLSettings } from './config.js'
import type { RLUpdate } from './trainer.js'

/** What a data set that is made for a run may use. */
export interface DatasetParts {
  readonly renderer: Renderer
  readonly tokenizer: Tokenizer
}

/** Settings and parts of {@link trainRL}. */
export interface RLConfig extends RLSettings {
  /** The policy that is trained. */
  readonly client: TrainingClient
  /**
   * Turns ids into text for records and reports, and text into ids where `renderer` is a name. Default: the renderer's, else
   * the client's own `tokenizer` if it has one; without any, records hold ids only.
   */
  readonly tokenizer?: Tokenizer | Pick<Tokenizer, 'decode'>
  /** The chat format: a renderer, or the name of one. Handed to `dataset` if that is a function. */
  readonly renderer?: string | Renderer
  /** Batches of groups; or a function that makes them for the run's renderer. */
  readonly dataset: RLDataset | ((parts: DatasetParts) => RLDataset | Promise<RLDataset>)
  /** Run before the first update, after the last, and every `evalEvery`. */
  readonly evaluators?: readonly Evaluator[]
  /** What `klPenalty` stays near. Default: the policy as it is when the run begins, kept with the run. */
  readonly reference?: SamplingClient
  /** Says why a group is not wanted; `undefined` keeps it. */
  readonly filter?: NonNullable<GroupRunOptions['filter']>
  /** A folder for metrics, rollouts, reports and checkpoints. Default: nothing is written. */
  readonly run?: string | RunTarget
  readonly trackers?: readonly Tracker[]
  /** Told what a person should know. Default: a line each on stderr; `() => {}` silences it. */
  readonly onNotice?: (notice: RunNotice) => void
  readonly onUpdate?: (update: RLUpdate) => void
}

const has =
  <T>(...names: readonly string[]) =>
  (value: unknown): value is T =>
    typeof value === 'object' && value !== null && names.every((name) => name in value)
const isFunction = (value: unknown): boolean => typeof value === 'function'

export const livePart = <T>(expected: string, check: (value: unknown) => boolean) =>
  z.custom<T>(check, { error: `expected ${expected}` })

/** Parts that both loops have. */
export const liveParts = {
  client: livePart<TrainingClient>('a training client', has('forwardBackward', 'optimStep', 'sampler')),
  tokenizer: livePart<Tokenizer | Pick<Tokenizer, 'decode'>>('a tokenizer', has('decode')).optional(),
  evaluators: z
    .array(livePart<Evaluator>('an evaluator: {name, evaluate}', has('name', 'evaluate')))
    .readonly()
    .default([]),
  run: z
    .union([
      z.string().min(1),
      z.strictObject({
        directory: z.string().min(1),
        resume: z.union([z.boolean(), z.string()]).default(false),
        rollouts: z.boolean().default(true),
        lock: lockSchema.exactOptional(),
      }),
    ])
    .nullable()
    .default(null),
  trackers: z
    .array(livePart<Tracker>('a tracker', has('log', 'finish')))
    .readonly()
    .default([]),
  onNotice: livePart<(notice: RunNotice) => void>('a function', isFunction).optional(),
}

const rlConfigSchema = z.strictObject({
  ...rlSettings,
  ...liveParts,
  renderer: z
    .union([z.string(), livePart<Renderer>('a renderer or its name', has('generationPrompt', 'parse'))])
    .optional(),
  dataset: livePart<RLConfig['dataset']>(
    'a data set with getBatch and length, or a function that makes one',
    (value) => isFunction(value) || has('getBatch', 'length')(value),
  ),
  reference: livePart<SamplingClient>('a sampling client', has('logprobs')).optional(),
  filter: livePart<NonNullable<GroupRunOptions['filter']>>('a function', isFunction).optional(),
  onUpdate: livePart<(update: RLUpdate) => void>('a function', isFunction).optional(),
})

type Parsed = z.output<typeof rlConfigSchema>

/** A config with every default, its plain settings apart from its live parts. */
export interface ResolvedRLConfig extends Pick<
  Parsed,
  'client' | 'dataset' | 'evaluators' | 'reference' | 'filter' | 'trackers' | 'onNotice' | 'onUpdate'
> {
  readonly settings: ResolvedRLSettings
  readonly run: RunTarget | null
  readonly tokenizer: Tokenizer | Pick<Tokenizer, 'decode'> | undefined
  readonly renderer: Renderer | undefined
}

/** @throws ConfigError naming each option that cannot be used, with the nearest known name for unknown ones. */
export function resolveRLConfig(config: RLConfig): ResolvedRLConfig {
  const parsed = parseStrict(rlConfigSchema, config, 'trainRL')
  const settings = Object.fromEntries(
    Object.entries(parsed).filter(([name]) => Object.hasOwn(rlSettings, name)),
  ) as unknown as ResolvedRLSettings
  checkRLSettings(settings)
  checkEvaluators(parsed.evaluators)
  const { client, dataset, evaluators, reference, filter, trackers, onNotice, onUpdate, run } = parsed
  const { contextLength } = client.info
  checkAnswerLength({ option: 'maxTokens', tokens: settings.maxTokens, contextLength, model: 'the client' })
  if (reference && !settings.klPenalty)
    throw new ConfigError(
      'reference is what klPenalty compares with, but klPenalty is off: set it, or leave reference out',
    )
  return {
    settings,
    client,
    dataset,
    evaluators,
    reference,
    filter,
    trackers,
    onNotice,
    onUpdate,
    run: typeof run === 'string' ? { directory: run } : run,
    ...resolveText(client, parsed.tokenizer, parsed.renderer),
  }
}

const isTokenizer = (value: unknown): value is Tokenizer => has('encode', 'decode', 'tokenId')(value)

/** The tokenizer and renderer of a run, from what was given. */
export function resolveText(
  client: TrainingClient,
  given: Tokenizer | Pick<Tokenizer, 'decode'> | undefined,
  format: string | Renderer | undefined,
): Pick<ResolvedRLConfig, 'tokenizer' | 'renderer'> {
  const own = (client as { tokenizer?: unknown }).tokenizer
  if (typeof format === 'object') return { renderer: format, tokenizer: given ?? format.tokenizer }
  const tokenizer = given ?? (has<Pick<Tokenizer, 'decode'>>('decode')(own) ? own : undefined)
  if (format === undefined) return { tokenizer, renderer: undefined }
  if (!isTokenizer(tokenizer)) {
    throw new ConfigError(
      `renderer "${format}" is a name and needs a tokenizer with encode, decode and tokenId: pass tokenizer, or a renderer`,
      { renderer: format },
    )
  }
  return { tokenizer, renderer: getRenderer(format, tokenizer) }
}

/** The data set of a run. @throws ConfigError when it is to be made and there is no renderer, or what was made is none */
export async function resolveDataset({ dataset, renderer }: ResolvedRLConfig): Promise<RLDataset> {
  if (typeof dataset === 'function' && !renderer)
    throw new ConfigError('dataset is a function of {renderer, tokenizer}: pass renderer too')
  const made =
    typeof dataset === 'function' ? await dataset({ renderer: renderer!, tokenizer: renderer!.tokenizer }) : dataset
  if (has<RLDataset>('getBatch', 'length')(made) && Number.isInteger(made.length) && made.length > 0) return made
  throw new ConfigError(`dataset: expected getBatch and a length of at least 1, got length ${String(made?.length)}`)
}
