import type { SamplingClient, TrainingClient } from '@selfplay/engine'
import type { GroupRunOptions, RLDataset } from '@selfplay/env'
import type { Renderer, Tokenizer } from '@selfplay/renderers'
import { z } from 'zod'
import { checkAnswerLength } from '../check-answer-length.js'
import { withDeadline } from '../deadline.js'
import { ConfigError } from '../errors.js'
import { checkEvaluators, type Evaluator } from '../evaluate/evaluator.js'
import { has, isFunction, livePart, liveParts } from '../run/live-parts.js'
import type { RunNotice } from '../run/loop-session.js'
import { resolveText, type RunText } from '../run/resolve-text.js'
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
export interface ResolvedRLConfig
  extends
    RunText,
    Pick<Parsed, 'client' | 'dataset' | 'evaluators' | 'reference' | 'filter' | 'trackers' | 'onNotice' | 'onUpdate'> {
  readonly settings: ResolvedRLSettings
  readonly run: RunTarget | null
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

/**
 * The data set of a run.
 *
 * @throws ConfigError when it is to be made and there is no renderer, or what was made is none; the signal's reason when aborted
 */
export async function resolveDataset({ dataset, renderer }: ResolvedRLConfig, signal: AbortSignal): Promise<RLDataset> {
  if (typeof dataset === 'function' && !renderer)
    throw new ConfigError('dataset is a function of {renderer, tokenizer}: pass renderer too')
  const made =
    typeof dataset === 'function'
      ? await withDeadline(() => dataset({ renderer: renderer!, tokenizer: renderer!.tokenizer }), {
          seconds: Infinity,
          signal,
          what: 'dataset',
        })
      : dataset
  if (has<RLDataset>('getBatch', 'length')(made) && Number.isInteger(made.length) && made.length > 0) return made
  throw new ConfigError(`dataset: expected getBatch and a length of at least 1, got length ${String(made?.length)}`)
}
