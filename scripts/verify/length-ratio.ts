import { getTokenizer } from '@selfplay/renderers'
import { bundledFolder } from '../../packages/selfplay/src/agents.js'
import type { SettingFlags } from '../../packages/selfplay/src/command/settings.js'
import { lengthRatioTiny } from '../../packages/selfplay/src/recipes.js'
import type { CheckContext, LearningCheck } from './check.js'
import { allSame, atLeast, atMost, firstShare, lastShare, mean, none, type Finding } from './finding.js'
import { series, startHashes, trainRun, type TrainRun } from './train-run.js'

const UNSEEN = 50

/** What the length-ratio tutorial must come to, by the recipe that `npm start` uses. */
export const lengthRatioCheck: LearningCheck = {
  name: 'length-ratio',
  about:
    'two agents learn to write answers whose lengths stand in a ratio of 2 to 3, by the recipe of the bundled model',
  run: (context) => verifyLengthRatio(lengthRatioTiny, context),
}

/** @param recipe flags of `selfplay train`. */
export async function verifyLengthRatio(recipe: SettingFlags, context: CheckContext): Promise<readonly Finding[]> {
  const run = await trainRun('length-ratio', { ...recipe, unseenPrompts: UNSEEN }, context)
  const rewards = series(run.metrics, 'turn_1/raw_reward_mean')
  const { task } = run.plan
  const trained = new Set(task.prompts)
  const unseen = task.unseenPrompts.slice(0, UNSEEN)
  const after = series(run.evaluations, 'eval/turn_1/raw_reward_mean').slice(1).at(-1) ?? Number.NaN
  return [
    allSame('weights that the agents start from (sha256)', await startHashes(run, context)),
    none('nodes whose agents see other ids than those of the prompt', await strangePrompts(run), run.rollouts.length),
    atMost('mean reward over the first 5 % of updates', mean(firstShare(rewards, 0.05)), 0.6),
    atLeast('mean reward over the last 20 % of updates', mean(lastShare(rewards, 0.2)), 0.85),
    none('unseen prompts that were trained on', unseen.filter((prompt) => trained.has(prompt)).length, unseen.length),
    atLeast(`mean reward on ${unseen.length} prompts never trained on`, after, 0.7),
  ]
}

/** Nodes at which some agent was shown anything but the row's prompt: another prompt, or another agent's text. */
async function strangePrompts({ plan, rollouts }: TrainRun): Promise<number> {
  const { model } = plan.settings
  const tokenizer = await getTokenizer(bundledFolder(model) ?? model)
  const expected = plan.task.prompts.map((prompt) => tokenizer.encode(prompt).join())
  const strange = rollouts.filter(
    ({ row, prompts }) =>
      prompts.length !== plan.task.agents || prompts.some(({ tokens }) => tokens.join() !== expected[row]),
  )
  return strange.length
}
