/**
 * Multi-turn feedback: two agents answer a task, are told how their answers were, and answer again. The task is that of the
 * length ratio: the second agent is to write two to three times as much as the first, without seeing its text.
 *
 *   npm run example examples/multi-turn-feedback.ts                       # the bundled model, a few minutes on two cores
 *   npm run example examples/multi-turn-feedback.ts ./Qwen2.5-0.5B        # the settings of the tutorial
 */
import {
  charCount,
  fixedDecimals,
  loadAgents,
  MAGRPOTrainer,
  runFolderName,
  stripControls,
  wandbTracker,
  type ExternalTransition,
  type JointRewardFunction,
  type MAGRPOConfig,
} from 'selfplay'
import './explain-failures.js'
import { readOptions } from './read-options.js'

const { values, positionals } = readOptions(
  [
    'Two agents answer, are told how long their answers were, and answer again; the second is to write two to three times as much.',
    'Give a model as the argument (default: bundled:tiny).',
  ],
  {
    output: {
      type: 'string',
      default: `runs/${runFolderName('multi-turn-feedback', new Date())}`,
      help: 'folder of the run',
    },
    seed: { type: 'string', default: '0', help: 'seeds every random draw', number: true },
    'max-steps': { type: 'string', help: 'most updates', number: true },
    wandb: { type: 'boolean', default: false, help: 'log to Weights & Biases; the key comes from WANDB_API_KEY' },
  },
)
const model = positionals[0] ?? 'bundled:tiny'

// ---- Setup: the prompts, and a reward for a ratio of 2 to 3 --------------------------------------------------------------

const trainDataset = [
  'Describe a city in the clouds:',
  'Invent a new holiday and explain it:',
  'Write a bedtime story for a dragon:',
  'Design a playground on Mars:',
].map((prompt) => ({ prompt }))
type Row = (typeof trainDataset)[number]

const lengthRatioReward: JointRewardFunction<Row> = ({ completions: [first = [], second = []] }) =>
  first.map((text, k) => {
    const ratio = charCount(second[k] ?? '') / Math.max(charCount(text), 1)
    const distance = 2 <= ratio && ratio <= 3 ? 0 : Math.min(Math.abs(ratio - 2), Math.abs(ratio - 3))
    return Math.exp(-distance)
  })

// ---- Feedback between turns: a new prompt for each agent that says how long the answers were -----------------------------
// `fixedDecimals` rounds as Python's `{ratio:.1f}` does: a tie goes to the even digit.

const lengthFeedback: ExternalTransition<Row> = ({ prompt, agentCompletions, numAgents }) => {
  const lengths = agentCompletions.map((text) => charCount(text))
  const ratio = (lengths[1] ?? 0) / Math.max(lengths[0] ?? 0, 1)
  return Array.from(
    { length: numAgents },
    (_, i) =>
      `${prompt}\n\nYour last answer had ${lengths[i]} characters. ` +
      `The second answer was ${fixedDecimals(ratio, 1)} times as long as the first; ` +
      'the goal is 2 to 3 times. Please write an improved answer.',
  )
}

// ---- Two-turn training ---------------------------------------------------------------------------------------------------
// A first answer whose reward is above 0.9 already reaches the goal: its branch ends there, and counts as if it stood for the
// second turn too. By default nothing ends early.

const tutorial: MAGRPOConfig = {
  numTurns: 2,
  numTrainEpochs: 2,
  numGenerations: 4,
  maxNewTokens: 64,
  loggingSteps: 1,
  earlyTerminationThreshold: 0.9,
}
/** The bundled model is small: many updates take little time, and it bears a large learning rate. */
const tiny: MAGRPOConfig = {
  numTrainEpochs: 200,
  promptsPerUpdate: 4,
  numGenerations: 6,
  agentLearningRate: 1e-3,
  learningRateSchedule: 'linear',
  loggingSteps: 10,
}

const trainer = new MAGRPOTrainer<Row>({
  agents: await loadAgents(model, 2),
  rewardFunc: lengthRatioReward,
  externalTransition: lengthFeedback,
  trainDataset,
  config: {
    ...tutorial,
    ...(model === 'bundled:tiny' && tiny),
    seed: Number(values.seed),
    ...(values['max-steps'] !== undefined && { maxSteps: Number(values['max-steps']) }),
  },
  run: values.output,
  trackers: values.wandb ? [wandbTracker()] : [],
  onNotice: ({ message }) => console.log(stripControls(message)),
})

// ---- What happens in each step -------------------------------------------------------------------------------------------
// 1. Each agent writes 4 first answers (6 on the bundled model); the k-th ones form joint answer k.
// 2. The feedback turns each joint answer that did not reach the goal into new prompts.
// 3. Each agent answers those as often: up to 16 (36) joint answers to one task.
// 4. A first answer is worth its own reward plus the mean reward of the second answers behind it.

/** Mean rewards of both turns over 8 answers to each prompt, with no branch ended early. */
async function rewards(): Promise<string> {
  const { metrics } = await trainer.evaluate({ rows: trainDataset, generations: 8 })
  return [1, 2].map((turn) => `turn ${turn}: ${metrics[`turn_${turn}/raw_reward_mean`]?.toFixed(2)}`).join(', ')
}

const before = await rewards()
for await (const { step, totalSteps, turnRewardMeans, isLogged } of trainer.updates()) {
  const turns = turnRewardMeans.map(
    (reward, turn) => `turn ${turn + 1}: ${Number.isNaN(reward) ? '-' : reward.toFixed(2)}`,
  )
  if (isLogged) console.log(`update ${step}/${totalSteps}  ${turns.join(', ')}`)
}
console.log(`before  ${before}`)
console.log(`after   ${await rewards()}`)

console.log(`the trained agents are in ${values.output}`)
console.log(`every answer of every turn: npx selfplay inspect ${values.output}`)
