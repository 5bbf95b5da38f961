import type { attention } from '../../graph/ops/attention.js'
import { inferenceOnly, refuse, type RuleTable } from '../rule.js'

const constantAngles = () =>
  refuse('RotaryEmbedding', 'cos and sin have no gradient; compose the rotation to train them')

export const attentionRules: RuleTable<keyof typeof attention> = {
  // The inverse of a rotation turns by the negative angle.
  RotaryEmbedding: (site) => [
    () => {
      const { g } = site
      return g.rotaryEmbedding(site.grad(), site.input(1), site.input(2), g.neg(site.input(3)), site.params)
    },
    undefined,
    constantAngles,
    constantAngles,
  ],
  GroupQueryAttention: inferenceOnly('it has no gradient; compose attention from MatMul and Softmax to train'),
}
