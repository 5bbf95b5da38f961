import { attempt, type Attempt, type FailureBudget } from './failure-budget.js'

/**
 * Calls `work` for each item, at most `concurrency` at once. Results are in the order of the items.
 *
 * @throws what a call threw first, once those that run have settled; the signal's reason when aborted. No call starts after that.
 */
export async function mapBounded<T, R>(
  items: readonly T[],
  work: (item: T, index: number) => Promise<R>,
  { concurrency, signal }: { readonly concurrency: number; readonly signal: AbortSignal },
): Promise<R[]> {
  signal.throwIfAborted()
  const results = Array.from<R>({ length: items.length })
  let next = 0
  let stopped = false
  const worker = async () => {
    while (next < items.length && !stopped) {
      const index = next++
      try {
        signal.throwIfAborted()
        results[index] = await work(items[index]!, index)
      } catch (error) {
        stopped = true
        throw error
      }
    }
  }
  const workers = await Promise.allSettled(Array.from({ length: Math.min(concurrency, items.length) }, worker))
  signal.throwIfAborted()
  for (const one of workers) if (one.status === 'rejected') throw one.reason
  return results
}

export interface AttemptEachOptions {
  readonly concurrency: number
  /** Of one call. */
  readonly timeoutSeconds: number
  readonly budget: FailureBudget
  readonly signal: AbortSignal
}

/**
 * {@link mapBounded} that survives failures as far as `budget` allows. The budget counts in the order of the items,
 * whatever finishes first, so that the same failures stop a run at the same place each time.
 *
 * @throws RewardFailuresError; the signal's reason when aborted
 */
export async function attemptEach<T, R>(
  items: readonly T[],
  work: (item: T, signal: AbortSignal, index: number) => R | Promise<R>,
  options: AttemptEachOptions,
): Promise<Attempt<R>[]> {
  const { budget } = options
  const settled: (Attempt<R> | undefined)[] = Array.from({ length: items.length })
  let counted = 0
  return await mapBounded(
    items,
    async (item, index) => {
      const result = await attempt((inner) => work(item, inner, index), options)
      settled[index] = result
      for (let ready = settled[counted]; ready; ready = settled[counted]) {
        counted++
        budget.record(ready)
      }
      return result
    },
    options,
  )
}
