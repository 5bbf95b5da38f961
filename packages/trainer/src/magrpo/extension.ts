import type { CriticClient, OptimStepOptions } from '@selfplay/engine'
import type { Policy } from './agents.js'
import type { AnalyseOptions, Analysis } from './analyse.js'
import type { JointNode } from './types.js'

/** A client besides the policies that a run trains. */
export interface ExtraPart {
  /** Its folder in checkpoints and in saved models. */
  readonly name: string
  readonly client: CriticClient
}

/** What training beyond the policies' own steps needs. */
export interface ExtraTraining {
  /** Updates finished before this one. */
  readonly step: number
  /** AdamW's settings; the rate is `learningRate` times the schedule's factor. */
  readonly optim: (learningRate: number) => OptimStepOptions
  /** Policies that have taken a step in this update. */
  readonly stepped: ReadonlySet<Policy>
  readonly signal: AbortSignal
  /** To be called before weights change. */
  readonly onWeightsChange: () => void
}

/** Credit by other means than groups, and what is to be trained besides the policies. */
export interface ExtendedAnalysis extends Analysis {
  /** Adds to a policy's gradients before its first step of the update. */
  readonly beforeStep?: (policy: Policy, training: Pick<ExtraTraining, 'step' | 'signal'>) => Promise<void>
  /** After the policies' steps. Returns metrics. */
  readonly train?: (training: ExtraTraining) => Promise<Record<string, number>>
}

/**
 * What a relative of MAGRPO does differently. Sampling, trees, rewards, datums, policy steps, runs and checkpoints are common.
 * @internal
 */
export interface Extension {
  /** Name of the trainer in run folders. */
  readonly trainer: string
  /** Settings of its own; with the common ones they must be equal when a run is taken up again. */
  readonly settings: Readonly<Record<string, unknown>>
  readonly parts: readonly ExtraPart[]
  readonly analyse: (roots: readonly JointNode[], options: AnalyseOptions) => Promise<ExtendedAnalysis>
}
