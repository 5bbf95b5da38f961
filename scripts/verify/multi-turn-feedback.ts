import { join } from 'node:path'
import { MAGRPOTrainer, type EvaluationChain } from '@selfplay/trainer'
import { loadAgents } from '../../packages/selfplay/src/agents.js'
import type { SettingFlags } from '../../packages/selfplay/src/command/settings.js'
import { multiTurnFeedbackTiny } from '../../packages/selfplay/src/recipes.js'
import type { CheckContext, LearningCheck } from './check.js'
import { atLeast, atMost, mean, type Finding } from './finding.js'
import { trainRun, type TrainRun } from './train-run.js'

/** Joint answers per prompt, of each evaluation. */
const ANSWERS = 32
/** A first-turn reward below it leaves room for an improvement. */
const GOOD = 0.9

/** What the multi-turn tutorial must come to. */
export const multiTurnFeedbackCheck: LearningCheck = {
  name: 'multi-turn-feedback',
  about: 'two agents are told how long their answers were and answer again, by the recipe of the bundled model',
  run: (context) => verifyMultiTurn(multiTurnFeedbackTiny, context),
}

/** @param recipe flags of `selfplay train`. */
async function verifyMultiTurn(recipe: SettingFlags, context: CheckContext): Promise<readonly Finding[]> {
  const started = performance.now()
  const run = await trainRun('multi-turn-feedback', recipe, context)
  const seconds = (performance.now() - started) / 1000
  const agents = Array.from({ length: run.plan.task.agents }, (_, agent) => `agent_${agent}`)
  const before = await evaluate(
    run,
    agents.map(() => context.model),
    context,
  )
  const after = await evaluate(
    run,
    agents.map((name) => join(context.directory, name)),
    context,
  )
  const poor = after.filter(([first]) => first < GOOD)
  const turn = (rewards: readonly Rewards[], index: 0 | 1) => mean(rewards.map((pair) => pair[index]))
  const answers = `${ANSWERS} joint answers to ${run.plan.task.prompts.length} prompts`
  return [
    atMost('seconds of the whole training', seconds, 300),
    atLeast(`turn 1: gain in mean reward over ${answers}`, turn(after, 0) - turn(before, 0), 0.15),
    atLeast(`turn 2: gain in mean reward over ${answers}`, turn(after, 1) - turn(before, 1), 0.15),
    atLeast('mean reward of turn 2 less that of turn 1', turn(after, 1) - turn(after, 0), -0.02),
    improvement(poor),
  ]
}

/** What the second turn makes of first answers that left room; where none did, there is nothing to improve. */
function improvement(poor: readonly Rewards[]): Finding {
  const what = `the same over the ${poor.length} whose first reward is below ${GOOD}`
  if (poor.length === 0) return { what, value: 'all are good', bound: '>= 0.1', holds: true }
  return atLeast(what, mean(poor.map(([first, second]) => second - first)), 0.1)
}

/** Rewards of the two turns of one joint answer. */
type Rewards = readonly [first: number, second: number]

/** Lets agents answer all prompts over both turns, without early endings, and forgets them. */
async function evaluate(
  { plan }: TrainRun,
  sources: readonly string[],
  { seed, signal }: CheckContext,
): Promise<readonly Rewards[]> {
  const { task, settings } = plan
  const agents = (await Promise.all(sources.map((source) => loadAgents(source, 1, { signal })))).flat()
  try {
    const trainer = new MAGRPOTrainer({
      agents,
      trainDataset: task.prompts.map((prompt) => ({ prompt })),
      rewardFunc: task.rewardFunc,
      ...(task.externalTransition && { externalTransition: task.externalTransition }),
      config: { ...task.config, maxNewTokens: settings.maxNewTokens, maxSteps: 1 },
    })
    const rows = task.prompts.map((prompt) => ({ prompt }))
    const { chains } = await trainer.evaluate({ rows, generations: ANSWERS, seed, signal })
    return chains.map(rewardsOf)
  } finally {
    await Promise.all(agents.map((agent) => agent.dispose()))
  }
}

function rewardsOf({ rowIndex, turns }: EvaluationChain): Rewards {
  const [first, second] = turns.map(({ rawRewards }) => rawRewards[0] ?? null)
  if (typeof first === 'number' && typeof second === 'number') return [first, second]
  throw new RangeError(`a joint answer to prompt ${rowIndex + 1} has no reward in both turns`)
}
