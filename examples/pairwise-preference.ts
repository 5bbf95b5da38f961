/**
 * A judge, and a policy that learns from it. The judge is a model too: it is trained on labelled comparisons of names. The
 * policy then invents names in groups, and its reward is how often the judge holds a name for better than those of the others.
 *
 *   npm run example examples/pairwise-preference.ts                 # the bundled model, about three minutes on two cores
 *   npm run example examples/pairwise-preference.ts ./Qwen3-0.6B    # a model of your own
 */
import { writeFile } from 'node:fs/promises'
import {
  assistant,
  balanceOrders,
  chatPreferenceModel,
  comparisonExample,
  datasetOf,
  deriveSeed,
  EnvFromMessageEnv,
  judgeWinRate,
  loadAgents,
  oneLine,
  PairwisePreferenceGroupBuilder,
  PREFERENCE_LABELS,
  Random,
  recommendedRenderer,
  runFolderName,
  stripControls,
  system,
  textOf,
  trainRL,
  trainSupervised,
  user,
  type Comparison,
  type ComparisonFrame,
  type LabeledComparison,
  type MessageEnv,
  type PreferenceLabel,
  type SamplingClient,
} from 'selfplay'
import './explain-failures.js'
import { readOptions } from './read-options.js'

const { values, positionals } = readOptions(
  [
    'A judge learns from labelled comparisons of names, and a policy learns from the judge.',
    'Give a model as the argument (default: bundled:tiny).',
  ],
  {
    output: {
      type: 'string',
      default: `runs/${runFolderName('pairwise-preference', new Date())}`,
      help: 'folder of the run',
    },
    seed: { type: 'string', default: '0', help: 'seeds every random draw', number: true },
    names: { type: 'string', default: '1000', help: 'names that are sampled of each topic', number: true },
    comparisons: { type: 'string', default: '2000', help: 'labelled comparisons to train the judge on', number: true },
    epochs: { type: 'string', default: '3', help: 'passes of the judge over its comparisons', number: true },
    steps: { type: 'string', default: '40', help: 'updates of the policy', number: true },
    pairings: {
      type: 'string',
      default: '200',
      help: 'names of the trained policy against those of its start',
      number: true,
    },
  },
)
const model = positionals[0] ?? 'bundled:tiny'
const isTiny = model === 'bundled:tiny'
const seed = Number(values.seed)
const random = new Random(seed)

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
const ask = (topic: string) => [
  system('You are a creative naming expert. Reply with just a name, nothing else.'),
  user(`Invent a creative name for a ${topic}.`),
]

// ---- Two models that start from the same weights: a policy and a judge ---------------------------------------------------

const chatFormat = (isTiny ? 'chatml' : recommendedRenderer(model)) ?? 'role_colon'
const [policy, judgeModel] = await loadAgents(model, 2, { renderer: chatFormat })
const renderer = policy!.renderer!
const start = await policy!.snapshot()

/** Names for a topic, one line each; null where the model found no end. */
async function namesBy(client: SamplingClient, topic: string, count: number, own: number) {
  const prompt = renderer.generationPrompt(ask(topic))
  const stop = [...renderer.stop]
  const samples = await client.sample({ prompt, numSamples: count, maxTokens: 48, stop, seed: own })
  return samples.map(({ tokens, stopReason }) =>
    stopReason === 'stop' ? oneLine(textOf(renderer.parse(tokens).message), 200) : null,
  )
}

// ---- Labelled comparisons: what the judge is to learn --------------------------------------------------------------------
// The rule that the labels follow: a name is better if it holds something precious. A list of words stands for the people who
// would label comparisons otherwise; neither the judge nor the policy ever sees it.

const PRECIOUS = /gold|silver|copper|crystal|pearl|amber/i

/** Comparisons of names for one thing, a third of them with each label. */
function compareNames(names: ReadonlyMap<string, readonly string[]>, count: number): LabeledComparison[] {
  return Array.from({ length: count }, () => {
    const [topic, all] = random.pick([...names])
    const precious = all.filter((name) => PRECIOUS.test(name))
    const plain = all.filter((name) => !PRECIOUS.test(name))
    const label: PreferenceLabel = random.pick(PREFERENCE_LABELS)
    const tied = random.pick([precious, plain])
    const [a, b] = { A: [precious, plain], B: [plain, precious], Tie: [tied, tied] }[label]
    const completion = (list: readonly string[]) => [assistant(random.pick(list))]
    return {
      comparison: { prompt: ask(topic), completionA: completion(a!), completionB: completion(b!) },
      label,
    }
  })
}

const seen = new Map<string, readonly string[]>()
const heldOut = new Map<string, readonly string[]>()
for (const [k, topic] of topics.entries()) {
  const found = await namesBy(start, topic, Number(values.names), deriveSeed(seed, 'names', k))
  const unique = [...new Set(found)].filter((name) => name !== null)
  const held = Math.floor(unique.length / 5)
  seen.set(topic, unique.slice(held))
  heldOut.set(topic, unique.slice(0, held))
}
// A name that was also given to something else has been seen.
const known = new Set([...seen.values()].flat())
for (const [topic, names] of heldOut)
  heldOut.set(
    topic,
    names.filter((name) => !known.has(name)),
  )
const training = compareNames(seen, Number(values.comparisons))
const test = compareNames(heldOut, 500)

// ---- The judge: supervised training on the one token that decides --------------------------------------------------------
// Each comparison is shown in both orders, so that no place wins more often.

/** A small judge needs few words: both names on a line each, and the question. */
const frame: ComparisonFrame = ({ completionA, completionB }) => {
  const [a, b] = [completionA, completionB].map((messages) => oneLine(messages.map(textOf).join(' '), 200))
  return [user(`A: ${a}\nB: ${b}\nWhich one?`)]
}

await trainSupervised({
  model: judgeModel!,
  dataset: balanceOrders(training, 'both').map((one) => comparisonExample(one, renderer, frame)),
  learningRate: isTiny ? 1e-3 : 2e-5,
  epochs: Number(values.epochs),
  batchSize: 32,
  seed,
  run: `${values.output}/judge`,
  checkpointEvery: 0,
  onUpdate({ step, totalSteps, nll }) {
    if (step % 50 === 0) console.log(`judge: update ${step}/${totalSteps}  loss ${nll.toFixed(2)}`)
  },
})

// Its preference is read from the probabilities of A, B and Tie, in both orders of the names: no place can be favoured.
const preferenceModel = chatPreferenceModel({ renderer, scorer: await judgeModel!.snapshot(), frame })

async function verdict(comparison: Comparison): Promise<PreferenceLabel> {
  const { a, b, tie } = await preferenceModel.compare(comparison)
  return tie >= Math.max(a, b) ? 'Tie' : a > b ? 'A' : 'B'
}
const verdicts = await Promise.all(test.map(({ comparison }) => verdict(comparison)))
const accuracy = verdicts.filter((found, k) => found === test[k]!.label).length / test.length
console.log(
  `the judge agrees with ${(100 * accuracy).toFixed(1)} % of ${test.length} comparisons of names it has not seen`,
)

// ---- The policy: names in groups, each judged against the others ---------------------------------------------------------

const naming = (topic: string): MessageEnv => ({
  initialObservation: () => ask(topic),
  step: () => ({ reward: 0, episodeDone: true, nextMessages: [] }),
})

const groupFor = (topic: string) =>
  new PairwisePreferenceGroupBuilder({
    prompt: ask(topic),
    renderer,
    preferenceModel,
    numEnvs: 4,
    makeEnv: () => new EnvFromMessageEnv({ renderer, messageEnv: naming(topic), maxGenerationTokens: 48 }),
  })

await trainRL({
  model: policy!,
  dataset: datasetOf(topics, groupFor, { batchSize: topics.length }),
  learningRate: isTiny ? 5e-4 : 4e-5,
  steps: Number(values.steps),
  seed,
  run: `${values.output}/policy`,
  onUpdate({ step, totalSteps, metrics }) {
    const spread = metrics['reward/group_std']?.toFixed(2)
    if (step % 10 === 0) console.log(`policy: update ${step}/${totalSteps}  spread of rewards in a group ${spread}`)
  },
  onNotice: ({ message }) => console.log(stripControls(message)),
})
await policy!.exportModel(`${values.output}/model`)

// ---- The policy against its start ----------------------------------------------------------------------------------------

const trained = await policy!.snapshot()
const perTopic = Math.ceil(Number(values.pairings) / topics.length)
const pairings: { comparison: Comparison; ours: string; theirs: string }[] = []
for (const [k, topic] of topics.entries()) {
  const [ours, theirs] = await Promise.all(
    [trained, start].map((client, side) => namesBy(client, topic, perTopic, deriveSeed(seed, 'pairing', k, side))),
  )
  ours!.forEach((name, i) => {
    const [own, other] = [name ?? '', theirs![i] ?? '']
    const comparison = { prompt: ask(topic), completionA: [assistant(own)], completionB: [assistant(other)] }
    pairings.push({ comparison, ours: own, theirs: other })
  })
}
const { winRate, standardError } = await judgeWinRate(
  pairings.map(({ comparison }) => comparison),
  preferenceModel,
)
// Has the policy learnt what the labels meant, or only what this judge falls for? The rule itself tells.
const precious = (name: string) => Number(PRECIOUS.test(name))
const byRule = pairings.reduce((sum, { ours, theirs }) => sum + (1 + precious(ours) - precious(theirs)) / 2, 0)

for (const { ours, theirs } of pairings.slice(0, 3)) console.log(`"${ours}" against "${theirs}"`)
console.log(
  `win rate against the start: ${winRate.toFixed(2)} (standard error ${standardError.toFixed(2)}) by the judge,`,
)
console.log(`  ${(byRule / pairings.length).toFixed(2)} by the rule behind its labels; a tie counts half`)
const summary = { accuracy, heldOut: test.length, winRate, standardError, winRateByRule: byRule / pairings.length }
await writeFile(`${values.output}/summary.json`, `${JSON.stringify(summary, null, 2)}\n`, 'utf8')
