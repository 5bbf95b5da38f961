import { getTokenizer } from '@selfplay/renderers'
import { lengthRatioReward, type JointRewardFunction } from '@selfplay/rewards'
import { MAGRPOTrainer, type ExternalTransition } from '@selfplay/trainer'
import { creativePrompts } from '../../packages/selfplay/src/tasks/prompts.js'
import { openAgents } from './agents.js'
import type { SideContext } from './case.js'
import { decodeFloor, trainingFlops } from './flops.js'
import { residentMemory } from './machine.js'
import { HIDDEN_64, modelFolder } from './models.js'
import type { ModelConfig } from '@selfplay/ort'

/** A row of the data sets here. */
interface Row {
  readonly prompt: string
}

/** One pass of agents over prompts, an update for each prompt. */
export interface MagrpoRun {
  readonly folder: string
  readonly agents: number
  readonly prompts: readonly string[]
  /** Answers of each agent at a node (K). */
  readonly generations: number
  readonly newTokens: number
  /** Makes the prompts of a second turn: one node behind each answer of the first. Default: one turn. */
  readonly transition?: ExternalTransition<Row> | undefined
}

/** The settings that both sides of a case read. */
export interface GroupSettings {
  readonly folder: string
  readonly prompts: readonly string[]
  readonly generations: number
  readonly newTokens: number
}

/** The S case of the reference: hidden 64, 2 layers, the 10 prompts of the tutorial, K = 4, 64 tokens. */
export const smallGroups = async (quick: boolean): Promise<GroupSettings> => ({
  folder: await modelFolder(HIDDEN_64),
  prompts: quick ? creativePrompts.slice(0, 2) : creativePrompts,
  generations: 4,
  newTokens: quick ? 8 : 64,
})

/** What a run took. */
export interface MagrpoTimes {
  /** Of all updates, sessions compiled within them. */
  readonly seconds: number
  /** Sampled, of all agents. */
  readonly tokens: number
  /** Of them, those of forward, backward and the optimiser's step: `time/train` of the trainer's metrics. */
  readonly training: number
  /** Resident memory just before the first update, bytes; NaN where the system does not tell. */
  readonly before: number
}

/** One agent alone is rewarded for its own length, so that no group is constant and every update is made. */
const ownLength: JointRewardFunction<Row> = ({ completions: [texts] }) => texts!.map((text) => text.length)

/** Rows that are in use at the last turn: answers of all nodes side by side. */
const rowsOf = ({ generations, transition }: Pick<MagrpoRun, 'generations' | 'transition'>): number =>
  transition ? generations ** 2 : generations

/** Loads agents anew, trains them over the prompts, and times the training. */
export async function timeMagrpo(run: MagrpoRun, { threads }: SideContext): Promise<MagrpoTimes> {
  const { folder, agents, prompts, generations, newTokens, transition } = run
  const tokenizer = await getTokenizer(folder)
  const clients = await openAgents(folder, agents, { threads, tokenizer, slots: rowsOf(run) })
  const trainer = new MAGRPOTrainer<Row>({
    agents: clients,
    trainDataset: prompts.map((prompt) => ({ prompt })),
    rewardFunc: agents === 1 ? ownLength : lengthRatioReward(),
    ...(transition && { externalTransition: transition }),
    config: {
      numTrainEpochs: 1,
      numTurns: transition ? 2 : 1,
      numGenerations: generations,
      maxNewTokens: newTokens,
      agentLearningRate: 5e-6,
      maxConcurrentPolicies: agents, // small models: all at once, a core each
    },
  })
  const before = residentMemory('self')?.resident ?? Number.NaN
  const started = performance.now()
  let tokens = 0
  let training = 0
  for await (const { sampledTokens, metrics } of trainer.updates()) {
    tokens += sampledTokens
    training += metrics['time/train']!
  }
  const seconds = (performance.now() - started) / 1000
  await Promise.all(clients.map((client) => client.dispose()))
  return { seconds, tokens, training, before }
}

/**
 * Seconds that one agent's run takes at least: the decoding steps of each turn, and the operations of forward and backward
 * over all its answers. Prompts are left out.
 */
export function magrpoFloor(
  config: ModelConfig,
  run: Pick<MagrpoRun, 'prompts' | 'generations' | 'newTokens' | 'transition'>,
  floors: Parameters<typeof decodeFloor>[3],
): number {
  const { prompts, generations, newTokens } = run
  const turns = run.transition ? [generations, generations ** 2] : [generations]
  const perPrompt = turns.reduce((sum, rows) => {
    const steps = newTokens * decodeFloor(config, rows, newTokens / 2, floors)
    return sum + steps + trainingFlops(config, rows, newTokens) / floors.gemm
  }, 0)
  return prompts.length * perPrompt
}
