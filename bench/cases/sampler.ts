import { defineCase, row, type Side, type SideContext } from '../lib/case.js'
import { openSampler, type DecodeSettings } from '../lib/decoding.js'
import { decodeFloor } from '../lib/flops.js'
import { HIDDEN_64, modelConfig, modelFolder, randomIds } from '../lib/models.js'
import { medianValue } from '../lib/statistics.js'

const ROWS = [1, 4, 16, 64] as const

type Settings = Omit<DecodeSettings, 'rows'>

const seconds = async (work: () => Promise<unknown>): Promise<number> => {
  const started = performance.now()
  await work()
  return (performance.now() - started) / 1000
}

async function ours(settings: Settings, context: SideContext): Promise<Side> {
  const samplers = new Map<number, Awaited<ReturnType<typeof openSampler>>>()
  for (const rows of ROWS) samplers.set(rows, await openSampler({ ...settings, rows }, context))
  let seed = 0
  return {
    async run() {
      const values: Record<string, number> = {}
      for (const [rows, { engine, sample }] of samplers) {
        await engine.release() // so that the next request makes its sessions anew
        const first = await seconds(() => sample(seed++))
        const before = engine.counts.steps
        const warm = await seconds(() => sample(seed++))
        values[`steps_${rows}`] = (engine.counts.steps - before) / warm
        values[`open_${rows}`] = first - warm
      }
      return { seconds: values['open_16']!, values }
    },
    async close() {
      for (const sampler of samplers.values()) await sampler.close()
    },
  }
}

export const sampler = defineCase<Settings>({
  name: 'sampler',
  title: 'steps per second and opening a session, hidden 64, 2 layers',
  section: 'speed',
  about:
    'The sampler alone on the tiny model of `decode-tiny`: steps per second of 1, 4, 16 and 64 rows (64 new tokens after 8), and what a ' +
    'request pays when it is the first: graphs built, written and compiled (first request less a later one).',
  prepare: async (quick) => ({
    folder: await modelFolder(HIDDEN_64),
    prompt: [...randomIds(8, HIDDEN_64.vocabSize, 1)],
    newTokens: quick ? 8 : 64,
    packing: 'auto',
  }),
  ours,
  rows({ settings, floors, ours: own }) {
    const position = settings.prompt.length + settings.newTokens / 2
    return [
      ...ROWS.map((rows) =>
        row({
          name: `${rows} ${rows === 1 ? 'row' : 'rows'}`,
          unit: 'steps/s',
          ours: medianValue(own, `steps_${rows}`),
          floor: 1 / decodeFloor(modelConfig(HIDDEN_64), rows, position, floors),
        }),
      ),
      row({ name: 'opening its sessions, 16 rows', unit: 'ms', ours: 1000 * medianValue(own, 'open_16') }),
    ]
  },
})
