/**
 * Self-play on messages: the members of a group invent names for the same thing, and their rewards come from comparing them
 * with each other. Nobody says what a good answer is; it only has to beat the others.
 *
 *   npm run example examples/naming-game.ts                       # the bundled model, about a minute on two cores
 *   npm run example examples/naming-game.ts ./Qwen3-0.6B          # a model of your own
 */
import {
  clientSampler,
  deriveSeed,
  EnvFromMessageEnv,
  loadAgents,
  modelPolicy,
  oneLine,
  pairwise,
  playEnv,
  recommendedRenderer,
  repeat,
  runFolderName,
  sampledTokens,
  scripted,
  stripControls,
  system,
  textOf,
  trainRL,
  user,
  type EnvGroupBuilder,
  type Message,
  type MessageEnv,
  type MessageStepResult,
  type Renderer,
  type RLDataset,
  type SamplingClient,
  type Trajectory,
} from 'selfplay'
import './explain-failures.js'
import { readOptions } from './read-options.js'

const { values, positionals } = readOptions(
  [
    'The members of a group invent names for the same thing and are compared with each other; the longer name wins.',
    'Give a model as the argument (default: bundled:tiny).',
  ],
  {
    output: { type: 'string', default: `runs/${runFolderName('naming-game', new Date())}`, help: 'folder of the run' },
    seed: { type: 'string', default: '0', help: 'seeds every random draw', number: true },
    steps: { type: 'string', default: '80', help: 'updates', number: true },
    pairings: {
      type: 'string',
      default: '200',
      help: 'names of the trained policy against those of its start',
      number: true,
    },
  },
)
const model = positionals[0] ?? 'bundled:tiny'
const seed = Number(values.seed)

// ---- Step 1: a game at the level of messages -----------------------------------------------------------------------------
// Each member plays an environment of its own and sees nothing of the others. A step is worth nothing by itself: who has won
// is only known when the whole group has answered.

class NamingGame implements MessageEnv {
  readonly topic: string
  constructor(topic: string) {
    this.topic = topic
  }

  initialObservation(): Message[] {
    return [
      system('You are a creative naming expert. Reply with just a name, nothing else.'),
      user(`Invent a creative name for a ${this.topic}.`),
    ]
  }

  step(): MessageStepResult {
    return { reward: 0, episodeDone: true, nextMessages: [] }
  }
}

// It needs no model: a script can play it, and so can you (`npx selfplay play naming-game`).
const { transcript } = await playEnv(new NamingGame('coffee shop'), scripted(['Bean There']))
console.log(`a scripted episode: ${transcript.map(({ role }) => role).join(', ')}`)

// ---- Step 2: from messages to tokens -------------------------------------------------------------------------------------
// The adapter lays out the messages in the model's chat format, stops at the format's own end, and ends episodes whose reply
// cannot be read or does not fit.

const chatFormat = (model === 'bundled:tiny' ? 'chatml' : recommendedRenderer(model)) ?? 'role_colon'
const [policy] = await loadAgents(model, 1, { renderer: chatFormat })
const { renderer } = policy!

const adapt = (topic: string, format: Renderer) =>
  new EnvFromMessageEnv({
    renderer: format,
    messageEnv: new NamingGame(topic),
    failedParseReward: -1, // a reply without a clean end
    lengthReward: -1, // a reply that was cut off
    maxTrajectoryTokens: 256, // prompt and reply together
    maxGenerationTokens: 96, // the reply
  })

const { failedParseReward, maxTrajectoryTokens } = adapt('coffee shop', renderer!)
console.log(`the adapter: failedParseReward ${failedParseReward}, maxTrajectoryTokens ${maxTrajectoryTokens}`)

// ---- Step 3: rewards from comparing the group ----------------------------------------------------------------------------
// Every two members meet once: the better one gets 1, the other -1, and a tie is 0 for both. Sums are divided by the number of
// all pairs, 6 for a group of 4. What one wins another loses, so the rewards of a group sum to 0.
//
// Here the longer name is held for the more creative one; a reply that was cut off is no name and has no length.
// pairwise-preference.ts puts a judge in the place of that.

/** Tokens of a reply that has come to its end. */
const nameLength = (episode: Trajectory) => (episode.stopReason === 'completed' ? sampledTokens(episode) : 0)

class NamingGameGroupBuilder implements EnvGroupBuilder {
  readonly topic: string
  readonly renderer: Renderer
  readonly numEnvs: number
  constructor(topic: string, format: Renderer, numEnvs = 4) {
    this.topic = topic
    this.renderer = format
    this.numEnvs = numEnvs
  }

  makeEnvs() {
    return repeat(this.numEnvs, () => adapt(this.topic, this.renderer))
  }

  readonly computeGroupRewards = pairwise((a, b) => Math.sign(nameLength(a) - nameLength(b)))

  loggingTags() {
    return ['naming_game']
  }
}

// ---- Step 4: the data set: batches of groups -----------------------------------------------------------------------------

class NamingGameDataset implements RLDataset {
  readonly topics: readonly string[]
  readonly renderer: Renderer
  readonly groupSize: number
  readonly batchSize: number
  constructor(
    topics: readonly string[],
    format: Renderer,
    { groupSize, batchSize }: { groupSize: number; batchSize: number },
  ) {
    this.topics = topics
    this.renderer = format
    this.groupSize = groupSize
    this.batchSize = batchSize
  }

  getBatch(index: number) {
    const start = index * this.batchSize
    return this.topics
      .slice(start, start + this.batchSize)
      .map((topic) => new NamingGameGroupBuilder(topic, this.renderer, this.groupSize))
  }

  get length() {
    return Math.floor(this.topics.length / this.batchSize)
  }
}

const topics = [
  'coffee shop',
  'bookshop',
  'robot dog',
  'space station',
  'jazz band',
  'flower shop',
  'sailboat',
  'board game',
]

// ---- Step 5: train, with the policy as it was kept for later -------------------------------------------------------------

const start = await policy!.snapshot()
await trainRL({
  model: policy!,
  dataset: ({ renderer: format }) => new NamingGameDataset(topics, format, { groupSize: 4, batchSize: 8 }),
  learningRate: model === 'bundled:tiny' ? 3e-4 : 4e-5,
  steps: Number(values.steps), // the data set is gone through as often as that takes
  seed,
  run: values.output,
  onUpdate: ({ step, totalSteps, metrics }) => {
    const length = metrics['env/all/ac_tokens_per_turn']?.toFixed(1)
    if (step === 1 || step % 10 === 0) console.log(`update ${step}/${totalSteps}  mean length ${length} tokens`)
  },
  onNotice: ({ message }) => console.log(stripControls(message)),
})
await policy!.exportModel(`${values.output}/model`)

// ---- Step 6: the trained policy against its start ------------------------------------------------------------------------

/** A name, and its length in tokens; one that has no end has no length. */
async function nameBy(client: SamplingClient, topic: string, own: number) {
  const player = modelPolicy({ renderer: renderer!, sample: clientSampler(client), maxTokens: 96 })
  const episode = await playEnv(new NamingGame(topic), player, { seed: own })
  const reply = episode.turns[0]!.reply
  const ended = episode.stopReason === 'completed' && typeof reply === 'object' && 'action' in reply
  return { length: ended ? reply.action.tokens.length : 0, text: oneLine(textOf(episode.transcript.at(-1)!), 80) }
}

const trained = await policy!.snapshot()
let won = 0
for (let k = 0; k < Number(values.pairings); k++) {
  const topic = topics[k % topics.length]!
  const [ours, theirs] = await Promise.all(
    [trained, start].map((client, side) => nameBy(client, topic, deriveSeed(seed, 'pairing', k, side))),
  )
  if (ours!.length > theirs!.length) won++
  if (k < 3) console.log(`a ${topic}: "${ours!.text}" against "${theirs!.text}"`)
}
console.log(`the trained policy has won ${won} of ${values.pairings} pairings against its start`)
console.log(`the trained model is in ${values.output}/model`)
