import { getTokenizer, type Tokenizer } from '@selfplay/renderers'
import { lengthRatioReward } from '@selfplay/rewards'
import { MAGRPOTrainer, type MAGRPOConfig } from '@selfplay/trainer'
import { loadTrainingClient } from '@selfplay/ort'
import { creativePrompts } from '../../packages/selfplay/src/tasks/prompts.js'
import { defineCase, row, type Row, type Side, type SideContext } from '../lib/case.js'
import { magrpoFloor } from '../lib/magrpo.js'
import { modelConfig, modelFolder, SMALL_VOCABULARY } from '../lib/models.js'
import { medianValue } from '../lib/statistics.js'

interface Play {
  readonly seed: number
  /** One model per agent. */
  readonly folders: readonly string[]
}

interface Settings {
  readonly plays: readonly Play[]
  readonly prompts: readonly string[]
  readonly epochs: number
  readonly generations: number
  readonly newTokens: number
  readonly learningRate: number
  readonly topK: number
}

const AGENTS = 2
const TENTHS = 10
const MIN_REWARD = 0.87
const MAX_SECONDS = 11

/** Where the reference's run differs from our defaults. A buffer of one node, as it has, is one update per prompt: ours. */
const referenceConfig = ({ epochs, generations, newTokens, learningRate, topK }: Settings): MAGRPOConfig => ({
  numTrainEpochs: epochs,
  order: 'fixed',
  numGenerations: generations,
  maxNewTokens: newTokens,
  topK,
  agentLearningRate: learningRate,
  adamBeta2: 0.999,
  weightDecay: 0.01,
  maxGradNorm: null,
})

/** Special tokens are no part of an answer's text, as the reference has it. */
const withoutSpecialTokens = (tokenizer: Tokenizer): Tokenizer => ({
  ...tokenizer,
  decode: (ids) => tokenizer.decode(ids, { skipSpecialTokens: true }),
})

async function learn({ seed, folders }: Play, settings: Settings, { threads }: SideContext) {
  const tokenizer = withoutSpecialTokens(await getTokenizer(folders[0]!))
  const agents = await Promise.all(
    folders.map(async (folder) => {
      const client = await loadTrainingClient(folder, { threads, tokenizer, slots: settings.generations })
      return Object.assign(client, { tokenizer })
    }),
  )
  const trainer = new MAGRPOTrainer({
    agents,
    trainDataset: settings.prompts.map((prompt) => ({ prompt })),
    rewardFunc: lengthRatioReward(),
    config: {
      ...referenceConfig(settings),
      stop: [tokenizer.eosTokenId!],
      seed,
    },
  })
  const rewards: number[] = []
  const started = performance.now()
  for await (const { rewardMean } of trainer.updates()) rewards.push(rewardMean)
  const seconds = (performance.now() - started) / 1000
  await Promise.all(agents.map((agent) => agent.dispose()))
  return { seconds, rewards }
}

/** Means over tenths of the run, by the names under which the peer has them, too. */
function tenths(seed: number, rewards: readonly number[]): Record<string, number> {
  const size = rewards.length / TENTHS
  return Object.fromEntries(
    Array.from({ length: TENTHS }, (_, t) => {
      const part = rewards.slice(t * size, (t + 1) * size)
      return [`reward_${seed}_${t + 1}`, part.reduce((sum, reward) => sum + reward, 0) / size]
    }),
  )
}

async function ours(settings: Settings, context: SideContext): Promise<Side> {
  return {
    async run() {
      const values: Record<string, number> = {}
      let total = 0
      for (const play of settings.plays) {
        const { seconds, rewards } = await learn(play, settings, context)
        Object.assign(values, tenths(play.seed, rewards), { [`seconds_${play.seed}`]: seconds })
        total += seconds
      }
      return { seconds: total, values }
    },
  }
}

const foldersOf = (seed: number): Promise<string[]> =>
  Promise.all(
    Array.from({ length: AGENTS }, (_, agent) =>
      modelFolder({ ...SMALL_VOCABULARY, seed: 1000 + AGENTS * seed + agent }),
    ),
  )

export const learningParity = defineCase<Settings>({
  name: 'learning-parity',
  title: 'two agents learn the length ratio from random weights: 100 updates, K = 8, 16 tokens',
  section: 'checks',
  about:
    'The learning check of the reference implementation (CoMLRL), seeds 0 to 2. Two agents, each with random weights of its own (Qwen2 shape, hidden 64, ' +
    '2 layers, tied head, standard deviation 0.02, vocabulary 1024: byte-level BPE of generated English); the 10 prompts of the tutorial, ten times in one ' +
    'order, an update per prompt; 8 answers of at most 16 tokens, an end token ends one, special tokens are no text; the reward is 1 when the second text has ' +
    '2 to 3 times the characters of the first, else exp(-distance). AdamW as PyTorch has it (beta2 0.999, weight decay 0.01), learning rate 0.002, no clipping, ' +
    "temperature 1, top-k 50 without top-p. The reference's notes give the sizes and the learning rate; its model, tokenizer and prompts are not known. Nor are its " +
    'filters: 50 is its default and that of `generate`, and alone gives curves like its own. Random weights make all tokens about as likely: of 1024 each is ' +
    'drawn too seldom to learn from quickly, and without the filter (our default) both sides need several times the updates. The bounds are what the reference ' +
    'came to on another machine: a mean reward of 0.87 over the last tenth, 11 s a seed, not scaled. The peer is not CoMLRL but its rules in PyTorch, on the same ' +
    'folders, with `generate` of Hugging Face: padding is scored, the last token is not. It scores the answers of a group in one batch, which CoMLRL does not. Seconds are those of the ' +
    'updates: models are loaded before, sessions are compiled within. Floor: as in `magrpo-small`, for the whole run of a seed.',
  runs: 3,
  warmups: 0,
  prepare: async (quick) => ({
    plays: await Promise.all((quick ? [0] : [0, 1, 2]).map(async (seed) => ({ seed, folders: await foldersOf(seed) }))),
    prompts: creativePrompts,
    epochs: quick ? 1 : 10,
    generations: 8,
    newTokens: quick ? 4 : 16,
    learningRate: 2e-3,
    topK: 50,
  }),
  ours,
  peer: { script: 'magrpo.py' },
  rows({ settings, floors, ours: own, peer }) {
    const { plays, prompts, epochs } = settings
    const updates = prompts.length * epochs
    const floor = AGENTS * epochs * magrpoFloor(modelConfig(SMALL_VOCABULARY), settings, floors)
    return plays.flatMap(({ seed }): Row[] => {
      const [last, time] = [`reward_${seed}_${TENTHS}`, `seconds_${seed}`]
      const [reward, seconds] = [medianValue(own, last), medianValue(own, time)]
      const theirs = peer ? medianValue(peer, time) : null
      const peerName = 'its rules in PyTorch'
      return [
        row({
          name: `seed ${seed}: mean of the last ${updates / TENTHS} of ${updates} updates`,
          unit: 'reward',
          ours: reward,
          peer: peer ? medianValue(peer, last) : 'not run',
          peerName,
          target: `>= ${MIN_REWARD}`,
          met: reward >= MIN_REWARD,
        }),
        row({
          name: `seed ${seed}: all ${updates} updates`,
          unit: 's',
          ours: seconds,
          peer: theirs ?? 'not run',
          peerName,
          ratio: theirs === null ? null : theirs / seconds,
          floor,
          target: `< ${MAX_SECONDS} s`,
          met: seconds < MAX_SECONDS,
        }),
      ]
    })
  },
})
