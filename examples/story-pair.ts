/**
 * A story by two writers: one writes the plot in a sentence, the other a scene. First each works from the topic alone; then the
 * scene writer is shown the plot, the plot writer the scene, and both write again. One reward for the pair: the plot is short,
 * the scene has room, and the scene takes up the words of the plot.
 *
 *   npm run example examples/story-pair.ts                                     # the bundled model, a minute or two on two cores
 *   npm run example -- examples/story-pair.ts ./Qwen2.5-0.5B --lora-rank 16    # adapters on a model of your own
 */
import {
  charCount,
  loadAgents,
  MAGRPOTrainer,
  oneLine,
  perAnswer,
  runFolderName,
  stripControls,
  type ExternalTransition,
  type Formatter,
} from 'selfplay'
import './explain-failures.js'
import { readOptions } from './read-options.js'

const { values, positionals } = readOptions(
  [
    "A plot and a scene by two writers, who are shown each other's text in the second turn.",
    'Give a model as the argument (default: bundled:tiny).',
  ],
  {
    output: { type: 'string', default: `runs/${runFolderName('story-pair', new Date())}`, help: 'folder of the run' },
    'lora-rank': {
      type: 'string',
      help: 'train adapters of this rank on one shared model, instead of all weights',
      number: true,
    },
    'max-steps': { type: 'string', default: '40', help: 'most updates', number: true },
  },
)
const model = positionals[0] ?? 'bundled:tiny'
const rank = values['lora-rank']
const agents = await loadAgents(model, 2, rank === undefined ? {} : { mode: 'adapters', lora: { rank: Number(rank) } })

// ---- The topics, and what each writer is asked ---------------------------------------------------------------------------

const trainDataset = [
  'a dragon who collects teapots',
  'a lighthouse that moves at night',
  'the last baker of a flying town',
  'two robots who plant a forest',
  'an owl who is afraid of the dark',
  'a market on the back of a whale',
].map((topic) => ({ prompt: topic }))
type Row = (typeof trainDataset)[number]

const plotWriter: Formatter<Row> = ({ row, prompt, turn }) =>
  turn === 1 ? `Write the plot of a story about ${row.prompt} in one sentence:` : prompt
const sceneWriter: Formatter<Row> = ({ row, prompt, turn }) =>
  turn === 1 ? `Write a scene of a story about ${row.prompt}:` : prompt

// ---- Between the turns each is shown what the other wrote ----------------------------------------------------------------

const swapDrafts: ExternalTransition<Row> = ({ row, agentCompletions: [plot = '', scene = ''] }) => [
  `This is a scene of a story about ${row.prompt}:\n${scene}\n\nWrite the plot of this story in one sentence:`,
  `This is the plot of a story about ${row.prompt}:\n${plot}\n\nWrite a scene of this story:`,
]

// ---- The reward of a pair, between 0 and 1 -------------------------------------------------------------------------------

/** 1 inside a range of lengths, falling off with the distance to it. */
const within = (length: number, least: number, most: number): number =>
  length < least ? length / least : length > most ? most / length : 1

const wordsOf = (text: string): Set<string> => new Set(text.toLowerCase().match(/\p{L}{4,}/gu))

/** The share of the plot's longer words that the scene takes up; half of them is enough. */
function follows(plot: string, scene: string): number {
  const words = [...wordsOf(plot)]
  const inScene = wordsOf(scene)
  const shared = words.filter((word) => inScene.has(word)).length
  return words.length === 0 ? 0 : Math.min(1, (2 * shared) / words.length)
}

const rewardFunc = perAnswer<Row>(({ completions: [plot = '', scene = ''] }) => {
  const sentences = plot.match(/[.!?]/g)?.length ?? 0
  const oneSentence = sentences === 1 ? within(charCount(plot), 30, 90) : 0
  return 0.4 * oneSentence + 0.3 * within(charCount(scene), 120, 240) + 0.3 * follows(plot, scene)
})

// ---- Training ------------------------------------------------------------------------------------------------------------

const trainer = new MAGRPOTrainer<Row>({
  agents,
  formatters: [plotWriter, sceneWriter],
  externalTransition: swapDrafts,
  rewardFunc,
  trainDataset,
  config: {
    numTurns: 2,
    numGenerations: 4,
    promptsPerUpdate: 3,
    maxSteps: Number(values['max-steps']),
    numTrainEpochs: 1000,
    maxNewTokens: 80,
    agentLearningRate: model === 'bundled:tiny' ? 1e-3 : 5e-5,
    loggingSteps: 10,
  },
  run: values.output,
  onNotice: ({ message }) => console.log(stripControls(message)),
})

async function show(title: string): Promise<void> {
  const { chains, metrics } = await trainer.evaluate({ rows: trainDataset, generations: 8 })
  const [plot = '', scene = ''] = chains[0]!.turns.at(-1)!.texts
  console.log(`${title}: mean reward of turn 2 ${metrics['turn_2/raw_reward_mean']?.toFixed(2)}`)
  console.log(`  plot   ${oneLine(plot, 110)}\n  scene  ${oneLine(scene, 110)}`)
}

await show('before')
for await (const { step, totalSteps, turnRewardMeans, isLogged } of trainer.updates()) {
  if (isLogged)
    console.log(`update ${step}/${totalSteps}  rewards ${turnRewardMeans.map((x) => x.toFixed(2)).join(', ')}`)
}
await show('after')
console.log(`the writers are in ${values.output}; every draft: npx selfplay inspect ${values.output}`)
