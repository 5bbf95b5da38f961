import type { TrainingClient } from '@selfplay/engine'
import { z } from 'zod'
import { runEvaluators, type Evaluator } from '../evaluate/evaluator.js'
import type { MetricsRow } from '../track/tracker.js'
import { CHECKPOINT_FORMAT } from './checkpoint.js'
import { LoopSession, type LoopSessionOptions, type LoopState } from './loop-session.js'
import { lineLengthsSchema } from './run-folder.js'
import { TrainingLoop, type LoopSchedule, type TrainingState } from './training-loop.js'

/** How a loop is set up, apart from what it trains on. */
export interface LoopSetup extends LoopSchedule {
  readonly client: TrainingClient
  readonly evaluators: readonly Evaluator[]
  readonly seed: number
}

/** A loop that trains one policy and measures it by evaluators. */
export abstract class PolicyLoop<S extends TrainingState, U extends { readonly step: number }> extends TrainingLoop<
  S,
  U
> {
  protected abstract readonly setup: LoopSetup

  protected get schedule(): LoopSchedule {
    return this.setup
  }

  protected async measure(signal: AbortSignal): Promise<MetricsRow | null> {
    const { evaluators, client, seed } = this.setup
    if (evaluators.length === 0) return null
    return runEvaluators(evaluators, client, { step: this.state!.step, seed, signal })
  }
}

export interface PolicySessionOptions<S extends LoopState> extends Omit<
  LoopSessionOptions<S, string>,
  'parts' | 'file' | 'describe'
> {
  /** Which loop it is: a checkpoint of another one is refused. */
  readonly kind: 'rl' | 'supervised'
  readonly client: TrainingClient
  readonly stateSchema: z.ZodType<S>
}

/** The session of a loop that trains one policy. */
export function policySession<S extends LoopState>(options: PolicySessionOptions<S>): LoopSession<S> {
  const { kind, client, stateSchema, ...rest } = options
  const schema = z.strictObject({
    formatVersion: z.literal(CHECKPOINT_FORMAT),
    kind: z.literal(kind),
    lines: lineLengthsSchema,
    settings: z.record(z.string(), z.unknown()),
    state: stateSchema,
  })
  return new LoopSession<S>({
    ...rest,
    kind,
    parts: [{ name: 'policy', client, title: 'the client' }],
    file: {
      schema,
      encode: ({ lines, settings, state }) => ({ formatVersion: CHECKPOINT_FORMAT, kind, lines, settings, state }),
    },
    describe: () => ({ model: client.info }),
  })
}
