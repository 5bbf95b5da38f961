import type { Sample } from './case.js'

/** What {@link alternate} drives. */
export interface Runnable {
  run(): Promise<Sample>
}

export interface AlternateOptions {
  readonly runs: number
  /** Untimed runs of each side before. */
  readonly warmups: number
  /** Called after each timed run. */
  readonly onSample?: (side: 'ours' | 'peer', run: number, sample: Sample) => void
}

/**
 * Runs ours and the peer in turn, A B A B, so that a change of the machine's speed meets both.
 * @returns the samples of each side in order; none of a peer that there is not.
 */
export async function alternate(
  ours: Runnable,
  peer: Runnable | undefined,
  { runs, warmups, onSample }: AlternateOptions,
): Promise<{ readonly ours: Sample[]; readonly peer: Sample[] }> {
  const samples: { ours: Sample[]; peer: Sample[] } = { ours: [], peer: [] }
  const sides = [['ours', ours] as const, ...(peer ? [['peer', peer] as const] : [])]
  for (let run = 1 - warmups; run <= runs; run++) {
    for (const [name, side] of sides) {
      const sample = await side.run()
      if (run < 1) continue
      samples[name].push(sample)
      onSample?.(name, run, sample)
    }
  }
  return samples
}
