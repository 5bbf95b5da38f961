import type { Measured } from './case.js'

/** @throws RangeError for an empty list. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('median: expected at least one number, got none')
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Median of the seconds of a side's runs. */
export const medianSeconds = ({ samples }: Measured): number => median(samples.map(({ seconds }) => seconds))

/**
 * A number of every run.
 * @throws RangeError when a run does not have it.
 */
function valuesOf({ samples }: Measured, name: string): number[] {
  return samples.map(({ values }) => {
    const value = values?.[name]
    if (value === undefined) throw new RangeError(`expected "${name}" among the numbers of each run, got a run without`)
    return value
  })
}

/** Median of a number of the runs. */
export const medianValue = (measured: Measured, name: string): number => median(valuesOf(measured, name))
