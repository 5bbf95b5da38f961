import { defineCase, row, type Side, type SideContext } from '../lib/case.js'
import { comlrlRow } from '../lib/comlrl.js'
import { magrpoFloor, smallGroups, timeMagrpo, type GroupSettings } from '../lib/magrpo.js'
import { HIDDEN_64, modelConfig } from '../lib/models.js'
import { medianSeconds, medianValue } from '../lib/statistics.js'

async function ours(settings: GroupSettings, context: SideContext): Promise<Side> {
  return {
    async run() {
      const two = await timeMagrpo({ ...settings, agents: 2 }, context)
      const one = await timeMagrpo({ ...settings, agents: 1 }, context)
      return { seconds: two.seconds, values: { tokens: two.tokens, one: one.seconds, one_tokens: one.tokens } }
    },
  }
}

export const magrpoSmall = defineCase<GroupSettings>({
  name: 'magrpo-small',
  title: 'MAGRPO whole: 10 prompts, 2 agents, K = 4, 64 tokens',
  section: 'speed',
  about:
    'All of `MAGRPOTrainer.updates()` on two agents of 0.36 M parameters (hidden 64, 2 layers, vocabulary 4096), 10 prompts, 4 answers of 64 ' +
    'tokens: 5,120 tokens, sessions compiled within the time; models are loaded before. The second row is one agent against ' +
    "TRL's GRPOTrainer on the same model, measured. The first is held against CoMLRL, which is not run: its 2.97 s are scaled by TRL measured now over " +
    'the 1.69 s of TRL on the machine where both figures were taken. Floor: the decoding steps and the operations of all updates at the measured rates.',
  prepare: smallGroups,
  ours,
  peer: { script: 'grpo.py' },
  rows({ settings, floors, ours: own, peer }) {
    const trl = peer ? medianSeconds(peer) : null
    const one = medianValue(own, 'one')
    const least = magrpoFloor(modelConfig(HIDDEN_64), settings, floors)
    return [
      comlrlRow({
        name: `2 agents, ${medianValue(own, 'tokens')} tokens`,
        ours: medianSeconds(own),
        reference: { comlrl: 2.97, trl: 1.69 },
        trl,
        floor: 2 * least,
        target: 6,
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
