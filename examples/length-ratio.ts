/**
 * Length ratio: two agents answer the same prompt, each on its own and without seeing the other's answer. Their shared reward
 * asks that the second answer has two to three times as many characters as the first. How good the answers are is not judged.
 *
 *   npm run example examples/length-ratio.ts ./Qwen2.5-0.5B
 *   npm run example -- examples/length-ratio.ts ./Qwen2.5-0.5B --lora-rank 16
 *
 * The settings are those of the tutorial, for a model of half a billion parameters. Memory grows with the model, the number of
 * agents, the answers per prompt and their length: `--lora-rank 16` trains small adapters on one shared model instead.
 */
import {
  charCount,
  loadAgents,
  MAGRPOTrainer,
  RewardProcessors,
  runFolderName,
  stripControls,
  wandbTracker,
  type JointRewardFunction,
  type MAGRPOConfig,
} from 'selfplay'
import './explain-failures.js'
import { readOptions } from './read-options.js'

// ---- Options -------------------------------------------------------------------------------------------------------------
// Logging to Weights & Biases is off unless --wandb is given; project and entity are optional. The key comes from the
// environment variable WANDB_API_KEY.

const { values, positionals } = readOptions(
  [
    'Two agents answer the same prompt; the second learns to write two to three times as many characters as the first.',
    'Give a model as the argument (default: bundled:tiny).',
  ],
  {
    output: { type: 'string', default: `runs/${runFolderName('length-ratio', new Date())}`, help: 'folder of the run' },
    epochs: { type: 'string', default: '3', help: 'passes over the prompts', number: true },
    generations: { type: 'string', default: '8', help: 'answers of each agent to each prompt', number: true },
    'max-new-tokens': { type: 'string', default: '128', help: 'longest answer, in tokens', number: true },
    'learning-rate': { type: 'string', default: '5e-5', help: 'learning rate', number: true },
    'lora-rank': {
      type: 'string',
      help: 'train adapters of this rank on one shared model, instead of all weights',
      number: true,
    },
    wandb: { type: 'boolean', default: false, help: 'log to Weights & Biases; the key comes from WANDB_API_KEY' },
    'wandb-project': { type: 'string', help: 'project there' },
    'wandb-entity': { type: 'string', help: 'entity there' },
  },
)
const model = positionals[0] ?? 'bundled:tiny'

// ---- The data set: prompts that leave room for imagination ---------------------------------------------------------------

const trainDataset = [
  'Describe a city in the clouds:',
  'Invent a new holiday and explain it:',
  'Write a bedtime story for a dragon:',
  'Explain how teleportation might work:',
  'Tell a joke about dinosaurs:',
  'Describe a world without electricity:',
  'Create a superhero with a unique power:',
  'Write a scene where the moon talks:',
  'Invent a new type of fruit:',
  'Design a playground on Mars:',
].map((prompt) => ({ prompt }))

// ---- The agents: each is a model of its own; the tokenizer comes with it -------------------------------------------------

const rank = values['lora-rank']
const agents = await loadAgents(model, 2, rank === undefined ? {} : { mode: 'adapters', lora: { rank: Number(rank) } })

// ---- The reward: 1 within the wanted range, falling off exponentially with the distance to it ----------------------------

interface LengthRatioOptions {
  readonly targetMin?: number
  readonly targetMax?: number
}

/** One reward per pair of answers; `charCount` counts characters as Python does. */
function properLengthRatioReward(
  completions1: readonly string[],
  completions2: readonly string[],
  { targetMin = 2, targetMax = 3 }: LengthRatioOptions = {},
): number[] {
  return completions1.map((c1, k) => {
    const length1 = charCount(c1)
    const length2 = charCount(completions2[k] ?? '')
    if (length1 === 0) return 0
    const ratio = length2 / length1
    if (targetMin <= ratio && ratio <= targetMax) return 1
    const distance = ratio < targetMin ? targetMin - ratio : ratio - targetMax
    return Math.exp(-distance)
  })
}

// ---- The settings of the training ----------------------------------------------------------------------------------------

const config: MAGRPOConfig = {
  numTrainEpochs: Number(values.epochs),
  agentLearningRate: Number(values['learning-rate']),
  loggingSteps: 10,
  numGenerations: Number(values.generations), // answers of each agent to each prompt
  numTurns: 1,
  maxNewTokens: Number(values['max-new-tokens']),
}

// ---- The trainer ---------------------------------------------------------------------------------------------------------
// The scale multiplies rewards by 100. Advantages are normalised by default, which takes most of a positive factor out again:
// the gradient does not become 100 times as strong.

const rewardFunc: JointRewardFunction = ({ completions: [first = [], second = []] }) =>
  properLengthRatioReward(first, second, { targetMin: 2, targetMax: 3 })

const wandb = {
  ...(values['wandb-project'] !== undefined && { project: values['wandb-project'] }),
  ...(values['wandb-entity'] !== undefined && { entity: values['wandb-entity'] }),
}

const trainer = new MAGRPOTrainer({
  agents,
  rewardFunc,
  rewardProcessor: RewardProcessors.scale({ factor: 100 }),
  config,
  trainDataset,
  run: values.output,
  trackers: values.wandb ? [wandbTracker(wandb)] : [],
  onNotice: ({ message }) => console.log(stripControls(message)),
})

// ---- Train both agents, and save them ------------------------------------------------------------------------------------
// `await trainer.train()` does the same without a word.

for await (const { step, totalSteps, rewardMean, isLogged } of trainer.updates()) {
  if (isLogged) console.log(`update ${step}/${totalSteps}  reward ${rewardMean.toFixed(2)}`)
}
console.log(`the trained agents are in ${values.output}`)
