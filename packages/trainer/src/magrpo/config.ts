import { z } from 'zod'
import { lossSchema, type Loss } from '@selfplay/engine'
import { ConfigError } from '../errors.js'
import { adamwSettings, learningRateSchedule } from '../optimiser-settings.js'
import { collapseSetting } from '../run/collapse.js'
import { parseStrict } from '../strict-config.js'

const positiveInt = z.number().int().positive()
/** What running baselines are unless they are set. */
const RAE = { raeDecay: 0.95, raeInitial: 0 }
const seconds = z.number().positive()

const generation = {
  maxNewTokens: positiveInt,
  temperature: z.number().positive(),
  topP: z.number().positive().max(1),
  topK: positiveInt.nullable(),
  stop: z.array(z.union([z.number().int().nonnegative(), z.string().min(1)])),
}

const agentSettings = z.strictObject({ ...generation, learningRate: z.number().positive() }).partial()

const earlyTermination = z.strictObject({
  /** A joint answer (or, with scope `node`, the mean of a node's) above it ends. */
  threshold: z.number(),
  /** What ends: the branch behind one joint answer, or the whole node at once. Default `branch`. */
  scope: z.enum(['branch', 'node']).default('branch'),
  /** Whether the threshold is compared with rewards before or after the processor. Default `raw`. */
  on: z.enum(['raw', 'processed']).default('raw'),
  /**
   * What an ended branch earns for the turns that it did not take: its own reward again for each (`hold`), as if the answer
   * stood, or nothing (`none`). Default `hold`: with `none` the best answer falls behind those that were allowed to go on.
   */
  credit: z.enum(['hold', 'none']).default('hold'),
})

/**
 * Settings of {@link MAGRPOTrainer}. Where a default differs from the reference implementation's, the comment says why.
 */
export const magrpoConfigSchema = z.strictObject({
  /** Passes over the data set. Default 20. */
  numTrainEpochs: positiveInt.default(20),
  /** Most updates of the run; null: as many as the epochs have. Default null. */
  maxSteps: positiveInt.nullable().default(null),
  /** Rows whose trees make one update. Default 1. */
  promptsPerUpdate: positiveInt.default(1),
  /**
   * Order of the rows in an epoch. Default null: an array is shuffled by the seed, anew each epoch (the reference repeats one
   * order, which couples neighbours); an async data set has no length to shuffle and keeps its own.
   */
  order: z.enum(['fixed', 'shuffled']).nullable().default(null),
  /** Seeds every random draw of the run. Default 0; the reference has no seed. */
  seed: z.number().int().default(0),

  /** Completions of each agent at each node (K). Default 4. */
  numGenerations: positiveInt.default(4),
  /** Turns (H). Default 1: the reference's 2 demands a transition from everybody. */
  numTurns: positiveInt.default(1),
  /** Factor on the mean return of the next turn. Default 1; the reference has the option and ignores it. */
  discount: z.number().min(0).max(1).default(1),
  /** `aligned`: joint answer k is everybody's k-th completion. `cross`: all combinations, agent 0 slowest. Default `aligned`. */
  jointMode: z.enum(['aligned', 'cross']).default('aligned'),
  /** Largest number of joint answers at one node that `cross` may make (K to the power of the agents). Default 4096. */
  maxJointAnswers: positiveInt.default(4096),
  /** Ends branches whose answers are good enough. Default null: none; the reference's -0.2 ends every second turn of a non-negative reward. */
  earlyTermination: earlyTermination.nullable().default(null),
  /** Short for `earlyTermination: { threshold }`. */
  earlyTerminationThreshold: z.number().nullable().default(null),
  /** Show the transition's text as it is, without the formatter. Default false. */
  externalPromptPassthrough: z.boolean().default(false),

  /** Most new tokens of a completion. Default 256. */
  maxNewTokens: generation.maxNewTokens.default(256),
  /** Default 1: the reference's 0.6 (with top-p 0.6, top-k 50) samples from another distribution than it trains. */
  temperature: generation.temperature.default(1),
  /** Default 1, see `temperature`. */
  topP: generation.topP.default(1),
  /** Default null (off), see `temperature`. */
  topK: generation.topK.default(null),
  /** Stop ids and strings besides the model's own end tokens. Default none. */
  stop: generation.stop.default([]),
  /** Settings of single agents that differ: entry i is for agent i; null or a missing one: as above. Default none. */
  perAgent: z.array(agentSettings.nullable()).default([]),

  /**
   * Baseline of the advantage: mean of the group, mean of the others (`rloo`), `max` of the group, `none`, or a running mean
   * per agent and turn (`rae`). Default `mean`.
   */
  advantageMode: z.enum(['mean', 'rloo', 'max', 'none', 'rae']).default('mean'),
  /** Divide by the group's population standard deviation (floor 1e-6). Default true. It scales only: the reference also re-centres, so that all modes coincide. */
  advantageNormalization: z.boolean().default(true),
  /** Share of the old value that a running baseline keeps per update. Default 0.95. Another one only with `rae`. */
  raeDecay: z.number().min(0).lt(1).default(RAE.raeDecay),
  /** Where running baselines start. Default 0. Another one only with `rae`. */
  raeInitial: z.number().default(RAE.raeInitial),
  /**
   * The loss; null picks `importance_sampling`, or `ppo` when buffers make nodes stale. Normalised by sum unless it says
   * otherwise. Default null.
   */
  loss: lossSchema.nullable().default(null),
  /**
   * Penalty coef * KL(policy || reference) on each completion's return, estimated from its sampled tokens (Schulman 2020).
   * Default null: off. Estimator default `k1`: in a return only its gradient is that of the KL; k2 and k3 (the reference's) have
   * less variance as a number to look at, but lack a term there and hardly hold a policy that is near.
   */
  referenceKl: z
    .strictObject({
      coef: z.number().nonnegative().default(0.1),
      estimator: z.enum(['k1', 'k2', 'k3']).default('k1'),
    })
    .nullable()
    .default(null),
  /** Collect this many nodes before training on them, turn by turn. Default null: train on the whole trees of an update at once, so that no node is stale. */
  rolloutBufferSize: positiveInt.nullable().default(null),
  /** Nodes per optimiser step when a buffer is on; null: the buffer's size. Default null. */
  trainBatchSize: positiveInt.nullable().default(null),

  /** Learning rate. Default 5e-6. */
  agentLearningRate: z.number().positive().default(5e-6),
  /** How the rate goes over the run. Default `constant`. */
  learningRateSchedule: learningRateSchedule.default('constant'),
  ...adamwSettings,

  /** Updates between evaluations; 0: only the first and the last. Default 16. */
  evalInterval: z.number().int().nonnegative().default(16),
  /** Rows of the evaluation set to use. Default 4. */
  evalNumSamples: positiveInt.default(4),
  /** Joint answers per row in evaluations. Default 1. */
  evalGenerations: positiveInt.default(1),
  /** Temperature of evaluations; null: the agents' own. 0 is greedy. Default null. */
  evalTemperature: z.number().nonnegative().nullable().default(null),

  /** Updates between rows for the terminal and for trackers; the run folder gets every one. Default 1 (the reference: 50, counted in joint answers). */
  loggingSteps: positiveInt.default(1),
  /** Updates between checkpoints; 0: only at the end and on abort. Default 50. */
  checkpointEvery: z.number().int().nonnegative().default(50),
  /** Newest checkpoints to keep, besides the best one. Default 2. */
  keepCheckpoints: positiveInt.default(2),

  /** Deadline of one reward call in seconds. Default 300. */
  rewardTimeoutSeconds: seconds.default(300),
  /** Deadline of one transition call in seconds. Default 60. */
  transitionTimeoutSeconds: seconds.default(60),
  /** Reward calls that may fail one after another before the run stops. Default 3. A reward that never worked stops it at once. */
  maxConsecutiveRewardFailures: positiveInt.default(3),
  /** Largest mean |trainer log-prob - sampler log-prob| on fresh samples; above it the step is refused. null: off. Default 0.1. */
  maxSamplerGap: z.number().positive().nullable().default(0.1),
  /**
   * Collapse: the mean reward over `window` updates has lost more than `drop` of what it had gained at its peak. `stop` ends
   * the run then. null: off. Default window 20, drop 0.5, no stop.
   */
  collapse: collapseSetting,
  /** How long an abort waits for an update whose first weights have already changed. Default 3. */
  abortGraceSeconds: z.number().nonnegative().default(3),
  /**
   * Policies with weights of their own that are sampled or trained at the same time. null (default): all where every model is so
   * small that its steps leave a processor idle (`info.sideBySide`); else 1, which takes least memory.
   */
  maxConcurrentPolicies: positiveInt.nullable().default(null),
})

/** What a user writes. */
export type MAGRPOConfig = z.input<typeof magrpoConfigSchema>
/** With every default in place. */
export type ResolvedConfig = z.output<typeof magrpoConfigSchema>
export type EarlyTermination = z.output<typeof earlyTermination>
export type AgentSettings = z.output<typeof agentSettings>

/** The reference implementation's own values, for people who port a run. Spread it into `config`. */
export const comlrlDefaults = {
  numTrainEpochs: 20,
  order: 'fixed',
  numGenerations: 4,
  numTurns: 2,
  maxNewTokens: 256,
  temperature: 0.6,
  topP: 0.6,
  topK: 50,
  earlyTermination: { threshold: -0.2, scope: 'node', on: 'processed', credit: 'none' },
  rolloutBufferSize: 2,
  agentLearningRate: 5e-6,
  adamBeta2: 0.999,
  weightDecay: 0.01,
  maxGradNorm: null,
  evalInterval: 16,
  evalNumSamples: 4,
} as const satisfies MAGRPOConfig

/**
 * Fills in the defaults and refuses what cannot work.
 *
 * @throws ConfigError naming the option, what was expected and what came.
 */
export function resolveConfig(config: MAGRPOConfig, agents: number): ResolvedConfig {
  const parsed = parseStrict(magrpoConfigSchema, config, 'config')
  const { earlyTerminationThreshold, ...rest } = parsed
  if (earlyTerminationThreshold !== null && parsed.earlyTermination !== null) {
    throw new ConfigError(
      'config.earlyTermination and config.earlyTerminationThreshold are both given: set the threshold in earlyTermination',
      { threshold: parsed.earlyTermination.threshold, earlyTerminationThreshold },
    )
  }
  const resolved: ResolvedConfig = {
    ...rest,
    earlyTerminationThreshold: null,
    earlyTermination:
      earlyTerminationThreshold === null
        ? parsed.earlyTermination
        : { threshold: earlyTerminationThreshold, scope: 'branch', on: 'raw', credit: 'hold' },
  }
  checkGroups(resolved, agents)
  checkOptions(resolved, agents)
  return resolved
}

function checkGroups({ numGenerations, advantageMode, jointMode, maxJointAnswers }: ResolvedConfig, agents: number) {
  if (numGenerations === 1 && advantageMode !== 'none' && advantageMode !== 'rae') {
    throw new ConfigError(
      `config.numGenerations is 1, but a group of one has no "${advantageMode}" baseline to differ from: ` +
        'use at least 2, or advantageMode "none" or "rae"',
      { numGenerations, advantageMode },
    )
  }
  const joint = numGenerations ** agents
  if (jointMode === 'cross' && agents > 1 && joint > maxJointAnswers) {
    throw new ConfigError(
      `config.jointMode "cross" makes ${numGenerations}^${agents} = ${joint} joint answers per node, more than ` +
        `maxJointAnswers ${maxJointAnswers}: lower numGenerations or raise the cap`,
      { numGenerations, agents, joint, maxJointAnswers },
    )
  }
}

function checkOptions(config: ResolvedConfig, agents: number) {
  if (config.trainBatchSize !== null && config.rolloutBufferSize === null) {
    throw new ConfigError('config.trainBatchSize counts nodes of a buffer: set rolloutBufferSize too')
  }
  if (config.loss?.name === 'cross_entropy') {
    throw new ConfigError(
      'config.loss "cross_entropy" ignores advantages: use importance_sampling, ppo, cispo, dro or gspo',
    )
  }
  for (const name of ['raeDecay', 'raeInitial'] as const) {
    if (config.advantageMode === 'rae' || config[name] === RAE[name]) continue
    throw new ConfigError(
      `config.${name} is of running baselines, but advantageMode is "${config.advantageMode}": use "rae", or leave ${name} out`,
      { [name]: config[name], advantageMode: config.advantageMode },
    )
  }
  if (config.perAgent.length > agents) {
    throw new ConfigError(`config.perAgent has ${config.perAgent.length} entries, but there are ${agents} agents`, {
      expected: agents,
      got: config.perAgent.length,
    })
  }
  if (config.earlyTermination && config.numTurns === 1) {
    throw new ConfigError('config.earlyTermination ends branches before the last turn, but numTurns is 1: remove it', {
      numTurns: 1,
    })
  }
}

/** The loss that a config trains with. */
export function lossOf({ loss, rolloutBufferSize }: ResolvedConfig): Loss {
  if (!loss) return { name: rolloutBufferSize === null ? 'importance_sampling' : 'ppo' }
  return Object.fromEntries(Object.entries(loss).filter(([, value]) => value !== undefined)) as unknown as Loss
}
