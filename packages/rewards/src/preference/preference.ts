import type { Message } from '@selfplay/renderers'

/** Two ways to go on from one conversation. */
export interface Comparison {
  readonly prompt: readonly Message[]
  readonly completionA: readonly Message[]
  readonly completionB: readonly Message[]
}

export const PREFERENCE_LABELS = ['A', 'B', 'Tie'] as const
export type PreferenceLabel = (typeof PREFERENCE_LABELS)[number]

export interface LabeledComparison {
  readonly comparison: Comparison
  readonly label: PreferenceLabel
}

/** What a judge holds of a comparison: probabilities that A is better, B is better, or neither. They sum to 1. */
export interface Preference {
  readonly a: number
  readonly b: number
  readonly tie: number
  /** Probability that the judge gives to its labels together, before it is spread over them. Near 0: it does not judge at all. */
  readonly labelMass?: number
  /** How far the probability of A moved when A and B changed places; 0 for a judge without a bias for a place. */
  readonly orderGap?: number
}

/** Says which of two completions is better. */
export interface PreferenceModel {
  compare(comparison: Comparison, options?: { readonly signal?: AbortSignal }): Promise<Preference>
}

/** -1 where A is surely better, 1 where B is, 0 where neither. */
export const preferenceScore = ({ a, b }: Preference): number => b - a

/** The preference of a judge that has no doubt. */
export const certain = (label: PreferenceLabel): Preference => ({
  a: label === 'A' ? 1 : 0,
  b: label === 'B' ? 1 : 0,
  tie: label === 'Tie' ? 1 : 0,
})

/** The same comparison with A and B in each other's place. */
export const swapComparison = ({ prompt, completionA, completionB }: Comparison): Comparison => ({
  prompt,
  completionA: completionB,
  completionB: completionA,
})

/** The same fact told with A and B in each other's place. */
export const swapLabeled = ({ comparison, label }: LabeledComparison): LabeledComparison => ({
  comparison: swapComparison(comparison),
  label: label === 'A' ? 'B' : label === 'B' ? 'A' : 'Tie',
})

/**
 * Labelled comparisons in which neither place wins more often by design: each in both orders, one after the other
 * (`both`), or each swapped with probability 1/2 (`random`).
 *
 * @param random numbers in [0, 1) from a seeded generator; only `random` draws, once per comparison
 */
export function balanceOrders(
  comparisons: readonly LabeledComparison[],
  orders: 'both' | { readonly random: () => number },
): LabeledComparison[] {
  if (orders === 'both') return comparisons.flatMap((one) => [one, swapLabeled(one)])
  return comparisons.map((one) => (orders.random() < 0.5 ? swapLabeled(one) : one))
}
