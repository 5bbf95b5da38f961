import { multiTurnFeedback } from '../../packages/selfplay/src/tasks/multi-turn-feedback.js'
import { defineCase, type Side, type SideContext } from '../lib/case.js'
import { comlrlRow } from '../lib/comlrl.js'
import { magrpoFloor, smallGroups, timeMagrpo, type GroupSettings, type MagrpoRun } from '../lib/magrpo.js'
import { HIDDEN_64, modelConfig } from '../lib/models.js'
import { medianSeconds, medianValue } from '../lib/statistics.js'

const AGENTS = 2

/** All prompts are the peer's; ours has the first. */
const runOf = ({ folder, prompts, generations, newTokens }: GroupSettings): MagrpoRun => ({
  folder,
  agents: AGENTS,
  prompts: prompts.slice(0, 1),
  generations,
  newTokens,
  transition: multiTurnFeedback.externalTransition,
})

/** Tokens of the root and of one node behind each of its joint answers. */
const tokensOf = ({ generations, newTokens }: GroupSettings): number =>
  AGENTS * (1 + generations) * generations * newTokens

async function ours(settings: GroupSettings, context: SideContext): Promise<Side> {
  return {
    async run() {
      const { seconds, tokens } = await timeMagrpo(runOf(settings), context)
      const expected = tokensOf(settings)
      if (tokens !== expected) throw new Error(`expected the ${expected} tokens of a whole tree, got ${tokens}`)
      return { seconds, values: { tokens } }
    },
  }
}

export const magrpoTwoTurns = defineCase<GroupSettings>({
  name: 'magrpo-two-turns',
  title: 'MAGRPO whole over two turns: 1 prompt, 2 agents, K = 4, 64 tokens',
  section: 'speed',
  about:
    'The model of `magrpo-small`, one prompt, two turns with the feedback of the tutorial between them: a root and one node behind each of its 4 joint ' +
    'answers, 5 nodes, 2,560 tokens (the case fails when fewer are sampled). All nodes are trained on in one step. Sessions are compiled within the time; ' +
    'models are loaded before. CoMLRL is not run: its 1.51 s are scaled by TRL, measured now on the 10 prompts of `magrpo-small`, over the 1.69 s of TRL on ' +
    'the machine where both figures were taken. Floor: the decoding steps (4 rows, then 16) and the operations of the update at the measured rates.',
  prepare: smallGroups,
  ours,
  peer: { script: 'grpo.py' },
  rows({ settings, floors, ours: own, peer }) {
    return [
      comlrlRow({
        name: `2 agents, 5 nodes, ${medianValue(own, 'tokens')} tokens`,
        ours: medianSeconds(own),
        reference: { comlrl: 1.51, trl: 1.69 },
        trl: peer ? medianSeconds(peer) : null,
        floor: AGENTS * magrpoFloor(modelConfig(HIDDEN_64), runOf(settings), floors),
        target: 6,
      }),
    ]
  },
})
