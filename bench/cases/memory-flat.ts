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
  readonly steps: number
  /** Steps before memory has to be flat. */
  readonly settled: number
}

/** Growth that is put down to the allocator and to compiled JavaScript, not to training. */
const ALLOWED = 4 * 2 ** 20

async function ours({ folder, steps, settled }: Settings, { threads }: SideContext): Promise<Side> {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
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
      const window = Math.min(20, Math.ceil(steps / 4))
      const [early, late] = [median(bytes.slice(settled, settled + window)), median(bytes.slice(-window))]
      return { seconds: (performance.now() - started) / 1000, values: { early, late, steps: bytes.length } }
    },
  }
}

export const memoryFlat = defineCase<Settings>({
  name: 'memory-flat',
  title: 'memory over 200 training steps',
  section: 'memory',
  about:
    '200 MAGRPO updates of two agents (hidden 64, 2 layers, 4 answers of 16 tokens). After each, garbage is collected and anonymous memory is read ' +
    '(`smaps_rollup`): the median of the last 20 updates against that of the 20 after update 20. Up to 4 MiB of growth count as flat.',
  runs: 1,
  warmups: 0,
  watchMemory: true,
  prepare: async (quick) => ({
    folder: await modelFolder(HIDDEN_64),
    ...(quick ? { steps: 12, settled: 3 } : { steps: 200, settled: 20 }),
  }),
  ours,
  rows({ settings, ours: own }) {
    const growth = medianValue(own, 'late') - medianValue(own, 'early')
    return [
      row({
        name: `growth from update ${settings.settled} to ${medianValue(own, 'steps')}, of ${Math.round(medianValue(own, 'early') / 2 ** 20)} MiB`,
        unit: 'MiB',
        ours: growth / 2 ** 20,
        target: `<= ${ALLOWED / 2 ** 20} MiB`,
        met: growth <= ALLOWED,
      }),
    ]
  },
})
