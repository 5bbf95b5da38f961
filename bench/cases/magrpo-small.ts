import { getTokenizer } from '@selfplay/renderers'
import { lengthRatioReward } from '@selfplay/rewards'
import { MAGRPOTrainer } from '@selfplay/trainer'
import { creativePrompts } from '../../packages/selfplay/src/tasks/prompts.js'
import { openAgents } from '../lib/agents.js'
import { defineCase, row, type Side, type SideContext } from '../lib/case.js'
import { decodeFloor, trainingFlops } from '../lib/flops.js'
import { HIDDEN_64, modelConfig, modelFolder } from '../lib/models.js'
import { medianSeconds, medianValue } from '../lib/statistics.js'

interface Settings {
  readonly folder: string
  readonly prompts: readonly string[]
  readonly generations: number
  readonly newTokens: number
}

/** Seconds of the reference implementation and of TRL on one machine, both for 10 prompts: what the scaling starts from. */
const REFERENCE = { comlrl: 2.97, trl: 1.69 } as const

async function timedRun(agents: number, settings: Settings, { threads }: SideContext) {
  const { folder, prompts, generations, newTokens } = settings
  const tokenizer = await getTokenizer(folder)
  const clients = await openAgents(folder, agents, { threads, tokenizer, slots: generations })
  const trainer = new MAGRPOTrainer({
    agents: clients,
    trainDataset: prompts.map((prompt) => ({ prompt })),
    // One agent alone is rewarded for its own length, so that no group is constant and every update is made.
    rewardFunc: agents === 1 ? ({ completions: [texts] }) => texts!.map((text) => text.length) : lengthRatioReward(),
    config: {
      numTrainEpochs: 1,
      numGenerations: generations,
      maxNewTokens: newTokens,
      agentLearningRate: 5e-6,
      maxConcurrentPolicies: agents, // small models: both at once, a core each
    },
  })
  const started = performance.now()
  let tokens = 0
  for await (const { sampledTokens } of trainer.updates()) tokens += sampledTokens
  const seconds = (performance.now() - started) / 1000
  await Promise.all(clients.map((client) => client.dispose()))
  return { seconds, tokens }
}

async function ours(settings: Settings, context: SideContext): Promise<Side> {
  return {
    async run() {
      const two = await timedRun(2, settings, context)
      const one = await timedRun(1, settings, context)
      return { seconds: two.seconds, values: { tokens: two.tokens, one: one.seconds, one_tokens: one.tokens } }
    },
  }
}

export const magrpoSmall = defineCase<Settings>({
  name: 'magrpo-small',
  title: 'MAGRPO whole: 10 prompts, 2 agents, K = 4, 64 tokens',
  section: 'speed',
  about:
    'All of `MAGRPOTrainer.updates()` on two agents of 0.36 M parameters (hidden 64, 2 layers, vocabulary 4096), 10 prompts, 4 answers of 64 ' +
    'tokens: 5,120 tokens, sessions compiled within the time; models are loaded before. The second row is one agent against ' +
    "TRL's GRPOTrainer on the same model, measured. The first is held against CoMLRL, which is not run: its 2.97 s are scaled by TRL measured now over " +
    'the 1.69 s of TRL on the machine where both figures were taken. Floor: the decoding steps and the operations of all updates at the measured rates.',
  prepare: async (quick) => ({
    folder: await modelFolder(HIDDEN_64),
    prompts: quick ? creativePrompts.slice(0, 2) : creativePrompts,
    generations: 4,
    newTokens: quick ? 8 : 64,
  }),
  ours,
  peer: { script: 'grpo.py' },
  rows({ settings, floors, ours: own, peer }) {
    const trl = peer ? medianSeconds(peer) : null
    const scaled = trl === null ? null : (REFERENCE.comlrl * trl) / REFERENCE.trl
    const [two, one] = [medianSeconds(own), medianValue(own, 'one')]
    const least = floorOfOneAgent(settings, floors)
    const ratio = scaled === null ? null : scaled / two
    return [
      row({
        name: `2 agents, ${medianValue(own, 'tokens')} tokens`,
        unit: 's',
        ours: two,
        peer: scaled ?? 'not run',
        peerName: 'CoMLRL, scaled',
        ratio,
        floor: 2 * least,
        target: 'ratio >= 6 (scaled)',
        met: ratio === null ? null : ratio >= 6,
      }),
      row({
        name: `1 agent (GRPO), ${medianValue(own, 'one_tokens')} tokens`,
        unit: 's',
        ours: one,
        peer: trl ?? 'not run',
        peerName: 'TRL',
        ratio: trl === null ? null : trl / one,
        floor: least,
      }),
    ]
  },
})

/** Prompts are short against the answers: they are left out. */
function floorOfOneAgent(
  { prompts, generations, newTokens }: Settings,
  floors: Parameters<typeof decodeFloor>[3],
): number {
  const config = modelConfig(HIDDEN_64)
  const steps = newTokens * decodeFloor(config, generations, newTokens / 2, floors)
  return prompts.length * (steps + trainingFlops(config, generations, newTokens) / floors.gemm)
}
