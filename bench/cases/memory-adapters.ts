import { createRuntime } from '@selfplay/ort'
import { MAGRPOTrainer, type TextCodec } from '@selfplay/trainer'
import { openAgents } from '../lib/agents.js'
import { defineCase, row, type Side, type SideContext } from '../lib/case.js'
import { HALF_BILLION, modelFolder, TWO_LAYERS, weightBytes } from '../lib/models.js'
import { medianValue } from '../lib/statistics.js'

interface Settings {
  readonly folder: string
  readonly baseBytes: number
  readonly updates: number
  readonly newTokens: number
  readonly activationBytes: number
}

const GENERATIONS = 4
const FACTOR = 1.3

/** Letters stand for ids and ids for letters: random weights need no more of a tokenizer. */
const letters: TextCodec = {
  encode: (text) => Array.from(text, (letter) => letter.codePointAt(0)! % 1000),
  decode: (ids) => Array.from(ids, (id) => String.fromCodePoint(97 + (id % 26))).join(''),
}

async function ours(settings: Settings, { threads }: SideContext): Promise<Side> {
  return {
    async run() {
      const { folder, updates, newTokens, activationBytes } = settings
      const runtime = await createRuntime({ threads })
      const agents = await openAgents(folder, 2, {
        runtime,
        tokenizer: letters,
        mode: 'adapters',
        activationBytes,
        slots: GENERATIONS,
      })
      const trainer = new MAGRPOTrainer({
        agents,
        trainDataset: Array.from({ length: updates }, (_, i) => ({ prompt: `Prompt number ${i} is as long as this.` })),
        rewardFunc: ({ completions }) =>
          completions[0]!.map((text, k) => (text.codePointAt(0)! + completions[1]![k]!.codePointAt(0)!) / 52),
        config: { numTrainEpochs: 1, numGenerations: GENERATIONS, maxNewTokens: newTokens, agentLearningRate: 1e-4 },
      })
      const { seconds, steps } = await trainer.train()
      const trained = agents.filter(({ step }) => step > 0).length
      await Promise.all(agents.map((agent) => agent.dispose()))
      await runtime.dispose()
      if (trained < 2 && updates > 1) throw new Error(`expected both agents to be trained, got ${trained}`)
      return { seconds, values: { steps } }
    },
  }
}

export const memoryAdapters = defineCase<Settings>({
  name: 'memory-adapters',
  title: 'two LoRA agents on a base of the shape of Qwen2.5-0.5B',
  section: 'memory',
  about:
    'Two agents with adapters (rank 16, all linear layers) on one frozen float32 folder of 494 M parameters, MAGRPO updates with 4 answers of 32 ' +
    'tokens, decoding packed. Largest anonymous memory of the whole process from its start to its end, the JavaScript heap included, read from ' +
    '`/proc` every 10 ms (RssAnon, and the sum over `smaps_rollup` every 250 ms or less often, where that takes long). The base itself is a mapped file and does not count. The bound is 1.3 ' +
    'times the bytes of the base plus the 512 MiB that a micro-batch may take for activations (`activationBytes`). The second row is VmHWM, with mapped files.',
  runs: 1,
  warmups: 0,
  watchMemory: true,
  prepare: async (quick) => {
    const spec = quick ? TWO_LAYERS : HALF_BILLION
    return {
      folder: await modelFolder(spec),
      baseBytes: weightBytes(spec),
      updates: 2,
      newTokens: quick ? 4 : 32,
      activationBytes: 512 * 2 ** 20,
    }
  },
  ours,
  rows({ settings, ours: own }) {
    const { anonymous, resident } = own.memory!
    const bound = FACTOR * settings.baseBytes + settings.activationBytes
    const mib = (bytes: number) => bytes / 2 ** 20
    return [
      row({
        name: `peak of anonymous memory, ${medianValue(own, 'steps')} updates`,
        unit: 'MiB',
        ours: mib(anonymous),
        floor: mib(settings.baseBytes),
        target: `<= ${Math.round(mib(bound))} MiB (1.3 x ${Math.round(mib(settings.baseBytes))} + ${mib(settings.activationBytes)})`,
        met: anonymous <= bound,
      }),
      row({ name: 'peak of resident memory of any kind', unit: 'MiB', ours: mib(resident) }),
    ]
  },
})
