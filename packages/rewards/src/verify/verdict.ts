/**
 * Why a verifier decided as it did.
 *
 * - `match`, `mismatch`: the answer was read and compared.
 * - `no_answer`: there is nothing where the answer is looked for.
 * - `several_answers`: there is more than one, and none is preferred.
 * - `unreadable`: what stands there is no number, expression, JSON, or program that parses.
 * - `undefined_value`: it can be read and has no value (division by zero, the root of a negative number, too large).
 * - `invalid`: JSON that does not fit the schema.
 * - `error`, `timeout`, `memory`: a program threw, or used up its time or its memory.
 */
export type VerdictReason =
  | 'match'
  | 'mismatch'
  | 'no_answer'
  | 'several_answers'
  | 'unreadable'
  | 'undefined_value'
  | 'invalid'
  | 'error'
  | 'timeout'
  | 'memory'

/** What a verifier says about an answer. */
export interface Verdict {
  /** 1 right, 0 wrong; between for programs that pass some of their cases. */
  readonly score: number
  readonly reason: VerdictReason
  /** What was read as the answer, where something was. */
  readonly answer?: string
  /** More about the reason, for people. */
  readonly detail?: string
}

export const verdict = (matches: boolean, answer: string): Verdict => ({
  score: matches ? 1 : 0,
  reason: matches ? 'match' : 'mismatch',
  answer,
})

export const rejected = (
  reason: Exclude<VerdictReason, 'match'>,
  more: Pick<Verdict, 'answer' | 'detail'> = {},
): Verdict => ({ score: 0, reason, ...more })
