import { createRuntime } from '@selfplay/ort'
import { getTokenizer } from '@selfplay/renderers'
import { MAGRPOTrainer } from '@selfplay/trainer'
import { RewardProcessors } from '@selfplay/rewards'
import { lengthRatioTutorial } from '../../packages/selfplay/src/recipes.js'
import { lengthRatio } from '../../packages/selfplay/src/tasks/length-ratio.js'
import { creativePrompts } from '../../packages/selfplay/src/tasks/prompts.js'
import { openAgents } from '../lib/agents.js'
import { defineCase, row, type Case, type Floors, type Side, type SideContext } from '../lib/case.js'
import { decodeFloor, forwardFlops } from '../lib/flops.js'
import { HALF_BILLION, modelConfig, modelFolder, TWO_LAYERS, weightBytes, type ModelSpec } from '../lib/models.js'
import { medianValue } from '../lib/statistics.js'

/** Whether each agent trains all weights of its own, or adapters on one frozen base. */
type Training = 'full' | 'adapters'

interface Settings {
  readonly training: Training
  readonly folder: string
  readonly updates: number
  readonly generations: number
  readonly newTokens: number
  readonly quick: boolean
}

const AGENTS = 2
const GIB = 2 ** 30

async function ours(settings: Settings, { threads }: SideContext): Promise<Side> {
  return {
    async run() {
      const { training, folder, updates, generations, newTokens } = settings
      const runtime = await createRuntime({ threads })
      const agents = await openAgents(folder, AGENTS, {
        runtime,
        tokenizer: await getTokenizer(folder),
        mode: training === 'full' ? 'separate' : 'adapters',
        slots: generations,
      })
      const trainer = new MAGRPOTrainer({
        agents,
        trainDataset: creativePrompts.slice(0, updates).map((prompt) => ({ prompt })),
        rewardFunc: lengthRatio.rewardFunc,
        rewardProcessor: RewardProcessors.scale({ factor: lengthRatioTutorial.rewardScale }),
        config: {
          numTrainEpochs: 1,
          numGenerations: generations,
          maxNewTokens: newTokens,
          agentLearningRate: lengthRatioTutorial.learningRate,
        },
      })
      const started = performance.now()
      let values: Record<string, number> = {}
      for await (const { step, seconds, sampledTokens, metrics } of trainer.updates()) {
        values = {
          step,
          last: seconds,
          tokens: sampledTokens,
          sample: metrics['time/sample']!,
          train: metrics['time/train']!,
        }
      }
      const seconds = (performance.now() - started) / 1000
      const trained = agents.filter(({ step }) => step === updates).length
      await Promise.all(agents.map((agent) => agent.dispose()))
      await runtime.dispose()
      if (trained < AGENTS) throw new Error(`expected ${AGENTS} agents with ${updates} steps, got ${trained}`)
      return { seconds, values }
    },
  }
}

interface Options {
  readonly name: string
  readonly title: string
  readonly about: string
  readonly training: Training
  /** Most anonymous memory, GiB. */
  readonly most: number
}

function halfBillion({ name, title, about, training, most }: Options): Case {
  return defineCase<Settings>({
    name,
    title,
    section: 'memory',
    about:
      `The tutorial's settings at the shape of Qwen2.5-0.5B (494 M parameters, random weights in float32, the tokenizer of Qwen3): two agents, ${about} 2 updates ` +
      'of MAGRPO with 8 answers of 128 tokens, all other options at their defaults. The first row is the largest anonymous memory of the whole process from its start ' +
      'to its end, as in `memory-adapters`, the second is VmHWM, with mapped files. The seconds are those of the second update: graphs are built and ' +
      'compiled in the first, but weights that were trained are packed anew for sampling in each.',
    runs: 1,
    warmups: 0,
    watchMemory: true,
    needsMemory: most * GIB,
    prepare: async (quick) => ({
      training,
      folder: await modelFolder(specOf(quick)),
      updates: 2,
      generations: lengthRatioTutorial.generations,
      newTokens: quick ? 4 : lengthRatioTutorial.maxNewTokens,
      quick,
    }),
    ours,
    rows({ settings, floors, ours: own }) {
      const { anonymous, resident } = own.memory!
      const mib = (bytes: number) => bytes / 2 ** 20
      return [
        row({
          name: `peak of anonymous memory, ${medianValue(own, 'step')} updates`,
          unit: 'MiB',
          ours: mib(anonymous),
          floor: mib(leastBytes(settings)),
          target: `<= ${most * 1024} MiB (${most} GiB)`,
          met: anonymous <= most * GIB,
        }),
        row({ name: 'peak of resident memory of any kind', unit: 'MiB', ours: mib(resident) }),
        row({
          name: `an update on ${medianValue(own, 'tokens')} tokens`,
          unit: 's',
          ours: medianValue(own, 'last'),
          floor: leastSeconds(settings, floors),
        }),
      ]
    },
  })
}

const specOf = (quick: boolean): ModelSpec => (quick ? TWO_LAYERS : HALF_BILLION)

/** Weights and moments of all agents and the gradient of one; with adapters the packed base. */
function leastBytes({ training, quick }: Settings): number {
  const weights = weightBytes(specOf(quick))
  return training === 'full' ? (3 * AGENTS + 1) * weights : weights
}

/**
 * The decoding steps, the operations of forward and backward (no gradients of a frozen base), and AdamW's passes over weights:
 * the norm reads the gradient, the step reads four tensors and writes three. Prompts are left out.
 */
function leastSeconds({ training, generations, newTokens, quick }: Settings, floors: Floors): number {
  const spec = specOf(quick)
  const config = modelConfig(spec)
  const decode = newTokens * decodeFloor(config, generations, newTokens / 2, floors)
  const passes = (training === 'full' ? 3 : 2) * forwardFlops(config, generations, newTokens)
  const step = training === 'full' ? (8 * weightBytes(spec)) / floors.bandwidth : 0
  return AGENTS * (decode + passes / floors.gemm + step)
}

export const halfBillionFull = halfBillion({
  name: 'half-billion-full',
  title: 'two agents of half a billion parameters, all weights trained',
  training: 'full',
  about: 'each with all weights of its own and their two moments,',
  most: 20,
})

export const halfBillionAdapters = halfBillion({
  name: 'half-billion-adapters',
  title: 'two adapters on half a billion parameters',
  training: 'adapters',
  about: 'each with an adapter (rank 16, all linear layers) on one frozen base,',
  most: 6,
})
