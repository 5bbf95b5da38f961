import { z } from 'zod'
import { CHECKPOINT_FORMAT } from '../run/checkpoint.js'
import { collapseStateSchema, noCollapse } from '../run/collapse.js'
import type { RunFile } from '../run/loop-session.js'
import { lineLengthsSchema } from '../run/run-folder.js'
import { Random, deriveSeed } from '@selfplay/env'
import type { BufferedNode } from './buffer.js'
import type { ResolvedConfig } from './config.js'

const word = z.number().int().nonnegative()
const count = z.number().int().nonnegative()

const savedSample = z.strictObject({
  agent: count,
  rowIndex: count,
  turn: count,
  path: z.array(count),
  completion: count,
  envStep: count,
  policyVersion: count,
  tokens: z.array(count),
  targets: z.array(count),
  weights: z.array(z.number()),
  advantages: z.array(z.number()),
  samplerLogprobs: z.array(z.number()),
  temperature: z.number(),
})
const savedNode = z.strictObject({ envStep: count, turn: count, samples: z.array(savedSample) })

/** What `trainer.json` of a checkpoint holds: everything that decides the rest of a run besides the weights. No part is optional. */
export const trainerStateSchema = z.strictObject({
  formatVersion: z.literal(CHECKPOINT_FORMAT),
  /** Finished updates. */
  step: count,
  /** Joint answers made so far. */
  envStep: count,
  /** Batches taken from the data set. */
  cursor: count,
  /** The step of the last evaluation; -1 before the first. */
  evaluatedAt: z.number().int(),
  random: z.tuple([word, word, word, word]),
  /** Running baselines (`rae`). */
  baselines: z.record(z.string(), z.number()),
  /** Nodes waiting for their training, [policy]. */
  buffers: z.array(z.array(savedNode)),
  failures: z.strictObject({ succeeded: count, consecutive: count, total: count, first: z.string().nullable() }),
  collapse: collapseStateSchema,
  /** The checkpoint with the highest mean reward. */
  best: z.strictObject({ step: count, value: z.number() }).nullable(),
  /** What was seen of the turns, for notices. */
  turns: z.strictObject({
    updates: count,
    firstTurnAnswers: count,
    terminated: count,
    secondTurnNodes: count,
    highest: z.number().nullable(),
    sum: z.number(),
    valued: count,
  }),
  /** Notices that are told once. */
  told: z.array(z.string()),
  /** Seconds spent training, over all sessions. */
  seconds: z.number().nonnegative(),
  lines: lineLengthsSchema,
  config: z.record(z.string(), z.unknown()),
})

export type SavedState = z.output<typeof trainerStateSchema>

/** The state in memory: as saved, with live nodes in the buffers and without what is only known when saving. */
export type TrainerState = Omit<SavedState, 'formatVersion' | 'buffers' | 'lines' | 'config'> & {
  readonly buffers: readonly (readonly BufferedNode[])[]
}

export function initialState(config: ResolvedConfig, policies: number): TrainerState {
  return {
    step: 0,
    envStep: 0,
    cursor: 0,
    evaluatedAt: -1,
    random: [...new Random(deriveSeed(config.seed, 'trainer')).state],
    baselines: {},
    buffers: Array.from({ length: policies }, () => []),
    failures: { succeeded: 0, consecutive: 0, total: 0, first: null },
    collapse: { ...noCollapse, recent: [] },
    best: null,
    turns: { updates: 0, firstTurnAnswers: 0, terminated: 0, secondTurnNodes: 0, highest: null, sum: 0, valued: 0 },
    told: [],
    seconds: 0,
  }
}

/** Nodes of a buffer as plain data. */
const saveNodes = (nodes: readonly BufferedNode[]): SavedState['buffers'][number] =>
  nodes.map(({ envStep, turn, samples }) => ({
    envStep,
    turn,
    samples: samples.map(({ datum, path, ...place }) => ({
      ...place,
      path: [...path],
      tokens: [...datum.tokens],
      targets: [...datum.targets],
      weights: [...datum.weights!],
      advantages: [...datum.advantages!],
      samplerLogprobs: [...datum.samplerLogprobs!],
      temperature: datum.temperature ?? 1,
    })),
  }))

/** The inverse of {@link saveNodes}. */
const loadNodes = (saved: SavedState['buffers'][number]): BufferedNode[] =>
  saved.map(({ envStep, turn, samples }) => ({
    envStep,
    turn,
    samples: samples.map(({ tokens, targets, weights, advantages, samplerLogprobs, temperature, ...place }) => ({
      ...place,
      datum: {
        tokens: Int32Array.from(tokens),
        targets: Int32Array.from(targets),
        weights: Float32Array.from(weights),
        advantages: Float32Array.from(advantages),
        samplerLogprobs: Float32Array.from(samplerLogprobs),
        temperature,
      },
    })),
  }))

/** How the state stands in a checkpoint. */
export const trainerFile: RunFile<TrainerState> = {
  schema: trainerStateSchema.transform(({ formatVersion: _version, lines, config, buffers, ...rest }) => ({
    state: { ...rest, buffers: buffers.map(loadNodes) },
    lines,
    settings: config,
  })),
  encode: ({ state: { buffers, ...rest }, lines, settings }) => ({
    formatVersion: CHECKPOINT_FORMAT,
    ...rest,
    buffers: buffers.map(saveNodes),
    lines,
    config: settings,
  }),
}

/** Options that may differ when a run is taken up again: they decide how long it runs and what is told, not what is learnt. */
const FREE = [
  'numTrainEpochs',
  'maxSteps',
  'loggingSteps',
  'checkpointEvery',
  'keepCheckpoints',
  'rewardTimeoutSeconds',
  'transitionTimeoutSeconds',
  'maxConsecutiveRewardFailures',
  'abortGraceSeconds',
  'maxConcurrentPolicies',
]

export const freeSettings = ({ advantageMode }: ResolvedConfig): ReadonlySet<string> =>
  // Without running baselines their settings do nothing, and earlier versions took any.
  new Set(advantageMode === 'rae' ? FREE : [...FREE, 'raeDecay', 'raeInitial'])
