import type { RuleTable } from '../rule.js'
import { activationRules } from './activation.js'
import { attentionRules } from './attention.js'
import { compareRules } from './compare.js'
import { elementwiseRules } from './elementwise.js'
import { gatherRules } from './gather.js'
import { matmulRules } from './matmul.js'
import { normalisationRules } from './normalisation.js'
import { reduceRules } from './reduce.js'
import { shapeRules } from './shape.js'

/** The gradient rule of every op. */
export const rules: RuleTable = {
  ...elementwiseRules,
  ...activationRules,
  ...compareRules,
  ...reduceRules,
  ...matmulRules,
  ...shapeRules,
  ...gatherRules,
  ...normalisationRules,
  ...attentionRules,
}
