import type { SamplingClient, TrainingClient } from '@selfplay/engine'
import { ConfigError } from '../errors.js'
import { deriveSeed } from '@selfplay/env'

/** What an evaluator may use. */
export interface EvaluationContext {
  readonly client: TrainingClient
  /** A view of the policy as it is now, made at the first call. The loop lets go of it. */
  readonly sampler: () => Promise<SamplingClient>
  /** Finished updates. */
  readonly step: number
  /** The same at every evaluation of a run, so that what differs is the policy. */
  readonly seed: number
  readonly signal: AbortSignal
}

/** Measures a policy without training it. */
export interface Evaluator {
  /** The metrics' names begin with it: `test` makes `test/...`. No two evaluators of a run share one. */
  readonly name: string
  evaluate(context: EvaluationContext): Promise<Readonly<Record<string, number>>>
}

/** @throws ConfigError for two evaluators of one name */
export function checkEvaluators(evaluators: readonly Evaluator[]): void {
  const names = evaluators.map(({ name }) => name)
  const twice = names.find((name, k) => name === '' || names.indexOf(name) !== k)
  if (twice !== undefined)
    throw new ConfigError(`evaluators: expected names of their own, got ${JSON.stringify(names)}`, { names })
}

/** Whether it is time: before the first update, after the last, and every `every` updates; never twice at one step. */
export const evaluationDue = (
  { step, evaluatedAt }: { readonly step: number; readonly evaluatedAt: number },
  { every, last }: { readonly every: number; readonly last: boolean },
): boolean => evaluatedAt !== step && (step === 0 || last || (every > 0 && step % every === 0))

/** Runs evaluators one after another. The row holds their metrics under their names. */
export async function runEvaluators(
  evaluators: readonly Evaluator[],
  client: TrainingClient,
  { step, seed, signal }: Pick<EvaluationContext, 'step' | 'seed' | 'signal'>,
): Promise<Record<string, number>> {
  const row: Record<string, number> = {}
  let open: SamplingClient | undefined
  const sampler = async () => (open ??= await client.sampler())
  try {
    for (const { name, evaluate } of evaluators.map((it) => ({ name: it.name, evaluate: it.evaluate.bind(it) }))) {
      signal.throwIfAborted()
      const metrics = await evaluate({ client, sampler, step, seed: deriveSeed(seed, 'evaluation', name), signal })
      for (const [key, value] of Object.entries(metrics)) row[`${name}/${key}`] = value
    }
    return row
  } finally {
    await open?.dispose()
  }
}
