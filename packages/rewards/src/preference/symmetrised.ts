import type { Preference, PreferenceModel } from './preference.js'
import { swapComparison } from './preference.js'

/**
 * A judge without a bias for a place: it asks `model` in both orders, at the same time, and takes the mean. Swapping A and B
 * then swaps the result exactly.
 */
export function symmetrised(model: PreferenceModel): PreferenceModel {
  return {
    async compare(comparison, options): Promise<Preference> {
      const [asked, swapped] = await Promise.all([
        model.compare(comparison, options),
        model.compare(swapComparison(comparison), options),
      ])
      const masses = [asked.labelMass, swapped.labelMass].filter((mass) => mass !== undefined)
      return {
        a: (asked.a + swapped.b) / 2,
        b: (asked.b + swapped.a) / 2,
        tie: (asked.tie + swapped.tie) / 2,
        orderGap: Math.abs(asked.a - swapped.b),
        ...(masses.length === 2 ? { labelMass: (masses[0]! + masses[1]!) / 2 } : {}),
      }
    },
  }
}
