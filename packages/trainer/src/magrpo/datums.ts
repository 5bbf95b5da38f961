import type { Datum } from '@selfplay/engine'
import type { Seat } from './agents.js'
import type { CreditedNode } from './credit.js'

/** One completion, ready to be trained on. */
export interface Sample {
  readonly agent: number
  readonly rowIndex: number
  readonly turn: number
  readonly path: readonly number[]
  /** Which completion of its node. */
  readonly completion: number
  readonly envStep: number
  readonly policyVersion: number
  readonly datum: Datum
}

/**
 * The training sequence of one completion of C tokens after a prompt of P: T = P + C - 1 positions, of which the last C
 * predict the completion, the stop token included. Weights, advantages and sampler log-probs are 0 elsewhere.
 */
export function toDatum(
  prompt: Int32Array,
  completion: { readonly tokens: Int32Array; readonly logprobs: Float32Array },
  advantage: number,
  temperature: number,
): Datum {
  const P = prompt.length
  const C = completion.tokens.length
  const whole = new Int32Array(P + C)
  whole.set(prompt)
  whole.set(completion.tokens, P)
  const T = P + C - 1
  const at = (values: ArrayLike<number>) => {
    const out = new Float32Array(T)
    out.set(values, P - 1)
    return out
  }
  return {
    tokens: whole.slice(0, T),
    targets: whole.slice(1),
    weights: at(new Float32Array(C).fill(1)),
    advantages: at(new Float32Array(C).fill(advantage)),
    samplerLogprobs: at(completion.logprobs),
    temperature,
  }
}

/**
 * The samples of one seat at one node. A completion is left out when its advantage is null, and the whole group when its
 * advantages are all 0.
 */
export function toSamples(credited: CreditedNode, seat: Seat, advantages: readonly (number | null)[]): Sample[] {
  if (advantages.every((advantage) => advantage === null || advantage === 0)) return []
  const { node, envStep } = credited
  return node.completions[seat.index]!.flatMap((completion, k) => {
    const advantage = advantages[k] ?? null
    if (advantage === null || completion.tokens.length === 0) return []
    const datum = toDatum(node.prompts[seat.index]!.tokens, completion, advantage, seat.settings.temperature)
    const { rowIndex, turn, path } = node
    const { policyVersion } = completion
    return [{ agent: seat.index, rowIndex, turn, path, completion: k, envStep, policyVersion, datum }]
  })
}
