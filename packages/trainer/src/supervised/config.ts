import type { TrainingClient } from '@selfplay/engine'
import { TRAIN_ON_WHAT, type Renderer, type Tokenizer } from '@selfplay/renderers'
import { z } from 'zod'
import { batchCount, type Dataset } from '../dataset.js'
import { ConfigError } from '../errors.js'
import { checkEvaluators, type Evaluator } from '../evaluate/evaluator.js'
import { optimiserSettings, runSettings } from '../optimiser-settings.js'
import { has, isFunction, livePart, liveParts } from '../run/live-parts.js'
import type { RunNotice } from '../run/loop-session.js'
import { resolveText } from '../run/resolve-text.js'
import type { RunTarget } from '../run/resume.js'
import { parseStrict } from '../strict-config.js'
import type { Tracker } from '../track/tracker.js'
import type { SupervisedRow } from './examples.js'
import { nllEvaluator } from './nll.js'
import type { SupervisedUpdate } from './trainer.js'

const positiveInt = z.number().int().positive()

/** Plain settings of `trainSupervised`. */
const supervisedSettings = {
  /** Passes over the rows. Default 1. */
  epochs: positiveInt.default(1),
  /** Most updates of the run; null: as many as the epochs have. Default null. */
  steps: positiveInt.nullable().default(null),
  /** Rows per update. Default 32. */
  batchSize: positiveInt.default(32),
  /**
   * Order of the rows in an epoch. Default null: an array is shuffled by the seed, anew each epoch; an async data set has no
   * length to shuffle and keeps its own.
   */
  order: z.enum(['fixed', 'shuffled']).nullable().default(null),
  /** Seeds the order of the rows. Default 0. */
  seed: z.number().int().default(0),
  /** Which tokens of a conversation carry loss. Default `all_assistant_messages`. */
  trainOn: z.enum(TRAIN_ON_WHAT).default('all_assistant_messages'),
  /** `example`: every example weighs the same. `token`: every weighted token does. Default `example`. */
  reduction: z.enum(['example', 'token']).default('example'),
  /** Most positions of an example; the rest is cut off. null: the model's context. Default null. */
  maxLength: positiveInt.nullable().default(null),
  /** Most tokens that are handed to the model in one call; an update makes as many as it needs. null: one call. Default 16,384. */
  maxTokensPerCall: positiveInt.nullable().default(16_384),
  ...optimiserSettings,
  /** How the rate goes over the run. Default `linear`: down to 0 (or `finalLearningRateFraction`) at the end. */
  learningRateSchedule: optimiserSettings.learningRateSchedule.default('linear'),
  ...runSettings,
}

const settingsSchema = z.strictObject(supervisedSettings)
/** What a user writes. */
export type SupervisedSettings = z.input<typeof settingsSchema>
/** With every default in place. */
export type ResolvedSupervisedSettings = z.output<typeof settingsSchema>

/** Settings that may differ when a run is taken up again. */
export const FREE_SUPERVISED_SETTINGS: ReadonlySet<string> = new Set([
  'epochs',
  'steps',
  'checkpointEvery',
  'keepCheckpoints',
  'abortGraceSeconds',
])

/** Settings and parts of {@link trainSupervised}. */
export interface SupervisedConfig extends SupervisedSettings {
  /** The policy that is trained. */
  readonly client: TrainingClient
  /** Conversations, or ids with weights. An async data set must give its rows anew each time it is iterated. */
  readonly dataset: Dataset<SupervisedRow>
  /** The chat format of conversations: a renderer, or the name of one. */
  readonly renderer?: string | Renderer
  /** For a renderer that is a name, and for bits per byte. Default: the renderer's, else the client's own. */
  readonly tokenizer?: Tokenizer | Pick<Tokenizer, 'decode'>
  /** Held-out rows: `test/nll` and `test/bpb`, before the first update, after the last, and every `evalEvery`. */
  readonly evalDataset?: readonly SupervisedRow[]
  readonly evaluators?: readonly Evaluator[]
  /** A folder for metrics and checkpoints. Default: nothing is written. */
  readonly run?: string | RunTarget
  readonly trackers?: readonly Tracker[]
  /** Told what a person should know. Default: a line each on stderr; `() => {}` silences it. */
  readonly onNotice?: (notice: RunNotice) => void
  readonly onUpdate?: (update: SupervisedUpdate) => void
}

const configSchema = z.strictObject({
  ...supervisedSettings,
  ...liveParts,
  renderer: z.union([z.string(), livePart<Renderer>('a renderer or its name', has('supervisedExample'))]).optional(),
  dataset: livePart<Dataset<SupervisedRow>>(
    'an array of rows, or an async iterable',
    (value) => Array.isArray(value) || has(Symbol.asyncIterator)(value),
  ),
  evalDataset: livePart<readonly SupervisedRow[]>('an array of rows', Array.isArray).optional(),
  onUpdate: livePart<(update: SupervisedUpdate) => void>('a function', isFunction).optional(),
})

/** A config with every default, its plain settings apart from its live parts. */
export interface ResolvedSupervisedConfig {
  readonly settings: ResolvedSupervisedSettings
  readonly client: TrainingClient
  readonly dataset: Dataset<SupervisedRow>
  readonly renderer: Renderer | undefined
  readonly evaluators: readonly Evaluator[]
  readonly run: RunTarget | null
  readonly trackers: readonly Tracker[]
  readonly onNotice: ((notice: RunNotice) => void) | undefined
  readonly onUpdate: ((update: SupervisedUpdate) => void) | undefined
  /** Updates of the whole run; null while an async data set keeps its length to itself. */
  readonly totalSteps: number | null
}

/** @throws ConfigError naming each option that cannot be used. */
export function resolveSupervisedConfig(config: SupervisedConfig): ResolvedSupervisedConfig {
  const parsed = parseStrict(configSchema, config, 'trainSupervised')
  const settings = Object.fromEntries(
    Object.entries(parsed).filter(([name]) => Object.hasOwn(supervisedSettings, name)),
  ) as unknown as ResolvedSupervisedSettings
  const { client, dataset, evalDataset, run, trackers, onNotice, onUpdate } = parsed
  if (Array.isArray(dataset) && dataset.length === 0)
    throw new ConfigError('dataset: expected at least one row, got none')
  const { renderer, tokenizer } = resolveText(client, parsed.tokenizer, parsed.renderer)
  const held = evalDataset && [heldOut(evalDataset, settings, renderer, tokenizer)]
  const evaluators = [...(held ?? []), ...parsed.evaluators]
  checkEvaluators(evaluators)
  const totalSteps = countSteps(dataset, settings)
  if (totalSteps === null && settings.learningRateSchedule !== 'constant') {
    throw new ConfigError(
      `learningRateSchedule "${settings.learningRateSchedule}" needs the length of the run, and an async data set does not ` +
        'tell it: set steps, or use "constant"',
    )
  }
  return {
    settings,
    client,
    dataset,
    renderer,
    evaluators,
    run: typeof run === 'string' ? { directory: run } : run,
    trackers,
    onNotice,
    onUpdate,
    totalSteps,
  }
}

function heldOut(
  rows: readonly SupervisedRow[],
  { trainOn, maxLength, maxTokensPerCall }: ResolvedSupervisedSettings,
  renderer: Renderer | undefined,
  tokenizer: Tokenizer | Pick<Tokenizer, 'decode'> | undefined,
): Evaluator {
  return nllEvaluator('test', rows, {
    trainOn,
    maxTokensPerCall,
    ...(renderer && { renderer }),
    ...(tokenizer && { tokenizer }),
    ...(maxLength !== null && { maxLength }),
  })
}

/** How the rows of a run are batched. */
export function batchOptions(dataset: Dataset<SupervisedRow>, settings: ResolvedSupervisedSettings) {
  const { epochs, batchSize, seed } = settings
  const order = settings.order ?? (Array.isArray(dataset) ? 'shuffled' : 'fixed')
  return { epochs, batchSize, order, seed } as const
}

function countSteps(dataset: Dataset<SupervisedRow>, settings: ResolvedSupervisedSettings): number | null {
  const { steps } = settings
  const inEpochs = batchCount(dataset, batchOptions(dataset, settings))
  return inEpochs === null ? steps : Math.min(inEpochs, steps ?? inEpochs)
}
