import { creativePrompts } from '../../packages/selfplay/src/tasks/prompts.js'
import { defineCase, row, type Measured, type Row, type Side, type SideContext } from '../lib/case.js'
import { comlrlRow } from '../lib/comlrl.js'
import { trainingFlops } from '../lib/flops.js'
import { timeMagrpo, type GroupSettings } from '../lib/magrpo.js'
import { modelConfig, modelFolder, WIDE_VOCABULARY } from '../lib/models.js'
import { medianValue } from '../lib/statistics.js'

async function ours(settings: GroupSettings, context: SideContext): Promise<Side> {
  return {
    async run() {
      const { seconds, ...values } = await timeMagrpo({ ...settings, agents: 1 }, context)
      return { seconds, values }
    },
  }
}

export const vocabulary = defineCase<GroupSettings>({
  name: 'vocabulary',
  title: 'one update at a vocabulary of 151,936: 1 prompt, K = 8, 128 tokens, 1 thread',
  section: 'speed',
  about:
    'One agent of hidden size 64 with 2 layers and the vocabulary of Qwen2.5 (9.8 M parameters; the head is the embedding; random weights in float32, the ' +
    'tokenizer of Qwen3), trained on 8 answers of 128 tokens to one prompt by `MAGRPOTrainer`, against GRPOTrainer of TRL on the same folder. Only the update is ' +
    "timed: forward, backward and the optimiser's step (`time/train` of our metrics, sessions compiled within it; of TRL the time from the begin of a step until the optimiser has " +
    'stepped, less generating and scoring). CoMLRL is not run: the 57.4 s of its update are scaled by the update of TRL now over the 5.9 s that it took on the machine ' +
    'where both figures were taken. Floor: the operations at the measured rate of `gemm`, which has all threads of the call. Memory: VmHWM of each process over all runs, ' +
    'and what of it came on top of the resident memory just before the first training (libraries, tokenizer and model loaded).',
  threads: 1,
  warmups: 0,
  watchMemory: true,
  prepare: async (quick) => ({
    folder: await modelFolder(WIDE_VOCABULARY),
    prompts: creativePrompts.slice(0, 1),
    generations: quick ? 2 : 8,
    newTokens: quick ? 4 : 128,
  }),
  ours,
  peer: { script: 'grpo.py' },
  rows({ settings, floors, ours: own, peer }) {
    const update = medianValue(own, 'training')
    const trl = peer ? medianValue(peer, 'training') : null
    const tokens = medianValue(own, 'tokens')
    const floor = trainingFlops(modelConfig(WIDE_VOCABULARY), settings.generations, settings.newTokens) / floors.gemm
    const name = `update on ${tokens} tokens`
    const onTop = (side: Measured) => side.memory!.resident - side.samples[0]!.values!['before']!
    return [
      against({ name, unit: 's', ours: update, trl, floor, target: 2 }),
      comlrlRow({ name, ours: update, reference: { comlrl: 57.4, trl: 5.9 }, trl, floor, target: 10 }),
      against({
        name: 'peak of resident memory',
        unit: 'MiB',
        ours: own.memory!.resident / 2 ** 20,
        trl: peer ? peer.memory!.resident / 2 ** 20 : null,
        target: 2,
      }),
      against({
        name: 'of it on top of what was there before training',
        unit: 'MiB',
        ours: onTop(own) / 2 ** 20,
        trl: peer ? onTop(peer) / 2 ** 20 : null,
      }),
    ]
  },
})

/** A line against TRL, of which less is better. */
function against(given: {
  readonly name: string
  readonly unit: string
  readonly ours: number
  /** Null: not run. */
  readonly trl: number | null
  readonly floor?: number
  readonly target?: number
}): Row {
  const { name, unit, ours: own, trl, floor = null, target } = given
  const ratio = trl === null ? null : trl / own
  return row({
    name,
    unit,
    ours: own,
    peer: trl ?? 'not run',
    peerName: 'TRL',
    ratio,
    floor,
    ...(target !== undefined && { target: `ratio >= ${target}`, met: ratio === null ? null : ratio >= target }),
  })
}
