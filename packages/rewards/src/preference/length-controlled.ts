import { z } from 'zod'
import { charCount } from '../length-ratio.js'
import { parseOptions } from '../options.js'
import { visibleText } from './messages.js'
import type { Comparison, Preference, PreferenceModel } from './preference.js'

export interface LengthControl {
  /** Log-odds that much more length is taken to be worth to the judge; they are taken away. */
  readonly coefficient: number
  /** Difference in characters at which the effect is at tanh(1), 76 % of the whole. */
  readonly scale: number
}

export const lengthControlSchema = z.strictObject({ coefficient: z.number(), scale: z.number().positive() })

/**
 * A judge whose preference for longer completions is taken out: the log-odds of A over B lose
 * `coefficient * tanh((length of A - length of B) / scale)`, the length term of length-controlled AlpacaEval (Dubois et al.
 * 2024, arXiv 2404.04475). Length is the number of characters that can be seen. Completions of one length are judged as before.
 *
 * @throws RewardOptionsError
 */
export function lengthControlled(model: PreferenceModel, options: LengthControl): PreferenceModel {
  const { coefficient, scale } = parseOptions(lengthControlSchema, options, 'lengthControlled')
  return {
    async compare(comparison, callOptions): Promise<Preference> {
      const preference = await model.compare(comparison, callOptions)
      const shift = (coefficient * Math.tanh(lengthDifference(comparison) / scale)) / 2
      const [a, b] = [preference.a * Math.exp(-shift), preference.b * Math.exp(shift)]
      const total = a + b + preference.tie
      return { ...preference, a: a / total, b: b / total, tie: preference.tie / total }
    },
  }
}

function lengthDifference({ completionA, completionB }: Comparison): number {
  const [a, b] = [completionA, completionB].map((messages) =>
    messages.reduce((sum, message) => sum + charCount(visibleText(message)), 0),
  )
  return a! - b!
}
