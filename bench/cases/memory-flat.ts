import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { getTokenizer } from '@selfplay/renderers'
import { lengthRatioReward } from '@selfplay/rewards'
import { MAGRPOTrainer } from '@selfplay/trainer'
import { creativePrompts } from '../../packages/selfplay/src/tasks/prompts.js'
import { openAgents } from '../lib/agents.js'
import { defineCase, row, type Side, type SideContext } from '../lib/case.js'
import { mappedAnonymous } from '../lib/machine.js'
import { HIDDEN_64, modelFolder } from '../lib/models.js'
import { median, medianValue } from '../lib/statistics.js'

interface Settings {
  readonly folder: string
  /** Steps before memory has to be flat. */
  readonly settled: number
  /** Steps after which it is compared with what it was then, ascending. */
  readonly compared: readonly number[]
}

/** Growth that is put down to the allocator and to compiled JavaScript, not to training. */
const ALLOWED = 4 * 2 ** 20

async function ours({ folder, settled, compared }: Settings, { threads }: SideContext): Promise<Side> {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const steps = compared.at(-1)!
  return {
    async run() {
      const tokenizer = await getTokenizer(folder)
      const agents = await openAgents(folder, 2, { threads, tokenizer, slots: 4 })
      const trainer = new MAGRPOTrainer({
        agents,
        trainDataset: creativePrompts.map((prompt) => ({ prompt })),
        rewardFunc: lengthRatioReward(),
        config: {
          numTrainEpochs: Math.ceil(steps / creativePrompts.length),
          maxSteps: steps,
          numGenerations: 4,
          maxNewTokens: 16,
          agentLearningRate: 1e-4,
        },
      })
      const started = performance.now()
      const bytes: number[] = []
      for await (const _update of trainer.updates()) {
        collectGarbage()
        bytes.push(mappedAnonymous('self')!)
      }
      await Promise.all(agents.map((agent) => agent.dispose()))
      if (bytes.length !== steps) throw new Error(`expected ${steps} updates, got ${bytes.length}`)
      const window = Math.min(20, Math.ceil(steps / 4))
      const until = (step: number) => median(bytes.slice(step - window, step))
      const values = {
        early: until(settled + window),
        ...Object.fromEntries(compared.map((step) => [step, until(step)])),
      }
      return { seconds: (performance.now() - started) / 1000, values }
    },
  }
}

export const memoryFlat = defineCase<Settings>({
  name: 'memory-flat',
  title: 'memory over 1000 training steps',
  section: 'memory',
  about:
    '1000 MAGRPO updates of two agents (hidden 64, 2 layers, 4 answers of 16 tokens). After each, garbage is collected and anonymous memory is read ' +
    '(`smaps_rollup`): the median of the 20 updates up to update 200, and of the last 20, against that of the 20 after update 20. Up to 4 MiB of growth ' +
    'count as flat.',
  runs: 1,
  warmups: 0,
  watchMemory: true,
  prepare: async (quick) => ({
    folder: await modelFolder(HIDDEN_64),
    ...(quick ? { settled: 3, compared: [9, 12] } : { settled: 20, compared: [200, 1000] }),
  }),
  ours,
  rows({ settings: { settled, compared }, ours: own }) {
    const early = medianValue(own, 'early')
    return compared.map((step) => {
      const growth = medianValue(own, String(step)) - early
      return row({
        name: `growth from update ${settled} to ${step}, of ${Math.round(early / 2 ** 20)} MiB`,
        unit: 'MiB',
        ours: growth / 2 ** 20,
        target: `<= ${ALLOWED / 2 ** 20} MiB`,
        met: growth <= ALLOWED,
      })
    })
  },
})
