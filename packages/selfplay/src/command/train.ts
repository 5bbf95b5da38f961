import { stat } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { InvalidInputError, NonFiniteError, type TrainingClient } from '@selfplay/engine'
import { createRuntime, type Runtime } from '@selfplay/ort'
import { RewardProcessors } from '@selfplay/rewards'
import {
  MAGRPOTrainer,
  newestCheckpoint,
  wandbTracker,
  type EvaluationChain,
  type MAGRPOConfig,
  type MAGRPOUpdate,
  type Notice,
  type RunLock,
  type Tracker,
  type WandbOptions,
} from '@selfplay/trainer'
import { loadAgents, type LoadedAgent } from '../agents.js'
import type { TaskRow } from '../tasks/index.js'
import { counted, mean } from '../terminal/numbers.js'
import { Progress } from '../terminal/progress.js'
import { quoted } from '../terminal/quoted.js'
import { labelled, verbatim, type Screen } from '../terminal/screen.js'
import { stripControls } from '../terminal/strip.js'
import { describeStart, writeReport } from './report.js'
import { lengthFlags, updatesOf } from './length.js'
import { claimFolder, writeCommand, type RunPlan } from './settings.js'

export interface TrainContext {
  readonly screen: Screen
  readonly signal: AbortSignal
  readonly cwd: string
  /** Given: rows go to W&B too. */
  readonly wandb?: Pick<WandbOptions, 'project' | 'entity'>
}

/** Samples that run side by side in one decoding session, at most. */
const MAX_SLOTS = 16
const UNSEEN_ANSWERS = 2

/**
 * Trains a task from its first line on the screen to the saved models.
 *
 * @throws the signal's reason when it was aborted, after a checkpoint; SelfplayError subclasses.
 */
export async function runTrain(plan: RunPlan, context: TrainContext): Promise<void> {
  const trackers = context.wandb ? [tracker(context.wandb, context)] : []
  const runtime = await createRuntime({ threads: plan.settings.threads })
  let agents: LoadedAgent[] = []
  try {
    const folder = await claimFolder(plan, context.cwd, new Date())
    try {
      agents = await load(plan, runtime, context)
      checkContext(plan, agents[0]!)
      await trainAgents({ ...folder, agents, runtime, trackers }, context)
    } finally {
      await folder.release()
    }
  } finally {
    await Promise.all([...new Set<TrainingClient>(agents)].map((agent) => agent.dispose()))
    await runtime.dispose()
  }
}

/** @throws InvalidInputError when not even a prompt of one token leaves room for an answer of the longest length. */
function checkContext({ settings: { model, maxNewTokens } }: RunPlan, { info: { contextLength } }: LoadedAgent): void {
  if (maxNewTokens < contextLength) return
  throw new InvalidInputError(
    `--max-new-tokens is ${maxNewTokens}, but the context of ${model} has ${contextLength} tokens, prompt included: ` +
      'ask for fewer',
    { maxNewTokens, contextLength },
  )
}

function load({ settings, task }: RunPlan, runtime: Runtime, { screen, signal }: TrainContext): Promise<LoadedAgent[]> {
  const { model, revision, seed, loraRank, generations, promptsPerUpdate } = settings
  let shown = ''
  return loadAgents(model, task.agents, {
    runtime,
    seed,
    signal,
    slots: Math.min(MAX_SLOTS, generations * promptsPerUpdate),
    ...(revision !== null && { revision }),
    ...(loraRank > 0 && { mode: 'adapters', lora: { rank: loraRank, alpha: 2 * loraRank } }),
    onProgress: ({ file, received, total }) => {
      if (file !== shown) screen.write(`fetching ${stripControls(file)} (${(total / 2 ** 20).toFixed(0)} MiB)\n`)
      else if (received === total) screen.write(`fetched  ${stripControls(file)}\n`)
      shown = file
    },
  })
}

/** The trainer's settings. */
export function configOf({ task, settings }: Pick<RunPlan, 'task' | 'settings'>): MAGRPOConfig {
  return {
    ...task.config,
    numTrainEpochs: settings.epochs,
    maxSteps: settings.maxSteps,
    promptsPerUpdate: settings.promptsPerUpdate,
    numGenerations: settings.generations,
    jointMode: settings.jointMode,
    maxNewTokens: settings.maxNewTokens,
    temperature: settings.temperature,
    agentLearningRate: settings.learningRate,
    learningRateSchedule: settings.learningRateSchedule,
    adamBeta2: settings.adamBeta2,
    earlyTerminationThreshold: settings.earlyTerminationThreshold,
    loggingSteps: settings.loggingSteps,
    checkpointEvery: settings.checkpointEvery,
    seed: settings.seed,
    evalInterval: 0,
    evalGenerations: UNSEEN_ANSWERS,
    ...(settings.unseenPrompts > 0 && { evalNumSamples: settings.unseenPrompts }),
  }
}

/** All that a run is made of. */
interface RunParts {
  readonly plan: RunPlan
  /** Of its folder. */
  readonly lock: RunLock
  readonly agents: readonly LoadedAgent[]
  readonly runtime: Runtime
  readonly trackers: readonly Tracker[]
}

function makeTrainer(
  { plan, lock, agents, trackers }: RunParts,
  onNotice: (notice: Notice) => void,
): MAGRPOTrainer<TaskRow> {
  const { task, settings, directory, resume } = plan
  const row = (prompt: string): TaskRow => ({ prompt })
  return new MAGRPOTrainer<TaskRow>({
    agents,
    trainDataset: task.prompts.map(row),
    ...(settings.unseenPrompts > 0 && { evalDataset: task.unseenPrompts.slice(0, settings.unseenPrompts).map(row) }),
    rewardFunc: task.rewardFunc,
    rewardProcessor: RewardProcessors.scale({ factor: settings.rewardScale }),
    ...(task.externalTransition && { externalTransition: task.externalTransition }),
    config: configOf(plan),
    run: { directory, resume, lock },
    trackers,
    onNotice,
  })
}

async function trainAgents(parts: RunParts, context: TrainContext): Promise<void> {
  const { plan, agents, runtime } = parts
  const { screen, signal } = context
  const progress = new Progress(screen)
  const print = noticePrinter(progress, screen)
  let hasBegun = !plan.resume
  const trainer = makeTrainer(parts, (notice) => {
    if (notice.code === 'resumed' || notice.code === 'started_over') hasBegun = true
    print(notice)
  })
  const { info } = agents[0]!
  screen.write(describeStart({ plan, info, runtime, totalSteps: trainer.totalSteps, screen, cwd: context.cwd }))
  for (const remark of plan.remarks) screen.write(labelled(screen, 'note', remark))
  const rows = [{ prompt: plan.task.prompts[0]! }]
  const answer = async (): Promise<EvaluationChain> =>
    (await trainer.evaluate({ rows, generations: 1, signal })).chains[0]!
  try {
    // Also when a run is resumed: the agents are still as they were before its first update.
    const before = await answer()
    if (!plan.resume || plan.lengthened) await writeCommand(plan)
    let updates = 0
    for await (const update of trainer.updates({ signal })) {
      updates++
      progress.update(stepOf(update, agents.length))
    }
    progress.end()
    if (updates === 0) screen.write(describeFinished(plan, context))
    const after = await answer()
    await writeReport({ plan, before, after, screen, cwd: context.cwd })
  } catch (error) {
    progress.end()
    // A run that could not be taken up, or has arrived at numbers that are none, does so again.
    const canGoOn = signal.aborted || (hasBegun && !(error instanceof NonFiniteError))
    if (canGoOn) screen.write(await describeStop(plan, context))
    throw error
  }
}

function stepOf({ step, totalSteps, turnRewardMeans, metrics, etaSeconds, isLogged }: MAGRPOUpdate, agents: number) {
  const norms = Array.from({ length: agents }, (_, agent) => metrics[`agent_${agent}/grad_norm`]).filter(
    (norm) => norm !== undefined,
  )
  return {
    step,
    total: totalSteps,
    rewards: turnRewardMeans,
    gradient: norms.length === 0 ? undefined : mean(norms),
    tokensPerSecond: metrics['perf/tokens_per_second'] ?? Number.NaN,
    etaSeconds,
    isLogged,
  }
}

/** For those who read losses and files; the run folder has all of it in events.jsonl. */
const QUIET: ReadonlySet<Notice['code']> = new Set<Notice['code']>(['checkpoint', 'on_policy_loss', 'already_finished'])

/** Warnings always; what is merely good to know once per kind, if the terminal is the place for it. */
function noticePrinter(progress: Progress, screen: Screen): (notice: Notice) => void {
  const told = new Set<Notice['code']>()
  return ({ code, level, message }) => {
    if (level === 'info' && (QUIET.has(code) || told.has(code))) return
    told.add(code)
    progress.print(labelled(screen, level === 'warning' ? 'warning' : 'note', stripControls(message)))
  }
}

/** That there was nothing left to train, and how a run becomes longer. */
function describeFinished({ directory, task, settings }: RunPlan, { screen, cwd }: TrainContext): string {
  const updates = updatesOf(task, settings)
  const path = quoted(relative(cwd, directory) || '.')
  return (
    labelled(screen, 'finished', `all ${counted(updates, 'update')} of the run are done already: nothing was trained`) +
    verbatim(
      screen,
      'longer',
      `npx selfplay train ${task.name} --resume ${path} ${lengthFlags(task, settings, 2 * updates)}`,
    )
  )
}

/** Where a stopped run can go on, and how; nothing when its folder is gone. */
async function describeStop({ directory, task }: RunPlan, { screen, cwd }: TrainContext): Promise<string> {
  if (!(await isThere(directory))) return ''
  const found = await newestCheckpoint(join(directory, 'checkpoints')).catch(() => null)
  if (!found) return labelled(screen, 'stopped', 'before there was a checkpoint')
  const step = Number(basename(found.directory).replace(/^step-/, ''))
  const path = relative(cwd, directory) || '.'
  return (
    labelled(screen, 'stopped', `the run is saved as it was after update ${step}`) +
    verbatim(screen, 'go on', `npx selfplay train ${task.name} --resume ${quoted(path)}`)
  )
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

function tracker(options: Pick<WandbOptions, 'project' | 'entity'>, { screen }: TrainContext): Tracker {
  return wandbTracker({
    ...options,
    onTrouble: (message) => screen.write(labelled(screen, 'warning', stripControls(message))),
  })
}
