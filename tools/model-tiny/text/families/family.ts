/**
 * One kind of prompt and how it is answered.
 *
 * An answer is an opener, then middle sentences in any order, then (mostly, when it is long enough) a closer. Every prompt and `setup` together
 * bind each capital name that the answers use.
 */
export interface Family {
  readonly name: string
  /** How often it is drawn, relative to the other families. */
  readonly weight: number
  /** Prompt templates; each ends with a colon. */
  readonly prompts: readonly string[]
  /** Slots such as `{N=name}` for names that the answers use and the prompt did not bind. */
  readonly setup?: string
  readonly openers: readonly string[]
  readonly middles: readonly string[]
  readonly closers: readonly string[]
}
