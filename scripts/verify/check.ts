import type { Finding } from './finding.js'

export interface CheckContext {
  readonly seed: number
  /** As `selfplay train --model` takes it. */
  readonly model: string
  /** A folder of the check's own; it does not exist yet. */
  readonly directory: string
  readonly signal: AbortSignal
}

/** Something that agents must learn, whatever the seed. */
export interface LearningCheck {
  /** As it is typed: lower case, dashes. */
  readonly name: string
  /** What is learnt and by which recipe, in a sentence. */
  readonly about: string
  /** Trains from the start with one seed and holds what happened against the bounds. */
  readonly run: (context: CheckContext) => Promise<readonly Finding[]>
}
