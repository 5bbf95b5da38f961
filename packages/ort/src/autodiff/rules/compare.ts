import { sameShape } from '../../graph/index.js'
import type { compare } from '../../graph/ops/compare.js'
import { sumTo } from '../broadcast.js'
import { notDifferentiable, type RuleTable } from '../rule.js'

const boolean = notDifferentiable('its result is true or false')

export const compareRules: RuleTable<keyof typeof compare> = {
  Equal: boolean,
  Less: boolean,
  Greater: boolean,
  LessOrEqual: boolean,
  GreaterOrEqual: boolean,
  And: boolean,
  Not: boolean,
  Where: (site) => {
    const { g } = site
    const condition = site.input(0)
    const gradient = () => (sameShape(condition.shape, site.outputs[0]!.shape) ? site.compact() : site.grad())
    return [
      undefined,
      () => sumTo(g.where(condition, gradient(), 0), site.input(1).shape),
      () => sumTo(g.where(condition, 0, gradient()), site.input(2).shape),
    ]
  },
}
