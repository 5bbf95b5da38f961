import { counted, fixed, mean } from './numbers.js'

export interface CurveOptions {
  /** Columns of the whole picture, numbers included. */
  readonly width: number
  /** Rows of the plot. Default 6. */
  readonly height?: number
}

/** Three levels within a row: low, middle, high. */
const MARKS = ['.', '-', "'"] as const
const AXIS = 6
const BESIDE = 27

/**
 * A curve of one value per update in plain ASCII, with its numbers beside it: the mean of the first 5 % and of the last 20 % of
 * updates, and the best mean of a tenth of them. Values that are not finite (an update without rewards) are left out.
 */
export function rewardCurve(rewards: readonly number[], { width, height = 6 }: CurveOptions): string {
  const known = rewards.flatMap((value, index) => (Number.isFinite(value) ? [{ value, update: index + 1 }] : []))
  if (known.length === 0) return 'no rewards yet\n'
  const beside = width >= AXIS + 4 + BESIDE + 20
  const columns = Math.max(8, Math.min(60, width - AXIS - 4 - (beside ? BESIDE : 0)))
  const [low, high] = rangeOf(known.map(({ value }) => value))
  const levels = columnMeans(rewards, columns).map((value) =>
    value === undefined ? -1 : Math.round(((value - low) / (high - low)) * (height * 3 - 1)),
  )
  const notes = summary(known.map(({ value }) => value))
  const rows = Array.from({ length: height }, (_, index) => {
    const row = height - 1 - index
    const line = levels.map((level) => (Math.floor(level / 3) === row && level >= 0 ? MARKS[level % 3] : ' ')).join('')
    const label = row === height - 1 ? fixed(high) : row === 0 ? fixed(low) : ''
    return `${label.padStart(AXIS)} |${line.padEnd(columns)}${beside ? `  ${notes[index] ?? ''}` : ''}`.trimEnd()
  })
  const last = counted(rewards.length, 'update')
  const axis = `${' '.repeat(AXIS)} +${'-'.repeat(columns)}`
  const scale = `${' '.repeat(AXIS + 2)}1${last.padStart(Math.max(last.length + 1, columns - 1))}`
  return `${[...rows, axis, scale, ...(beside ? [] : notes)].join('\n')}\n`
}

/** 0 to 1 where that holds all values, else from the smallest to the largest. */
function rangeOf(values: readonly number[]): [number, number] {
  const low = Math.min(0, ...values)
  const high = Math.max(low === 0 ? 1 : 0, ...values)
  return high > low ? [low, high] : [low, low + 1]
}

/** The mean of each column's share of the values; undefined for a column without any. */
function columnMeans(values: readonly number[], columns: number): (number | undefined)[] {
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * values.length) / columns)
    const to = Math.max(from + 1, Math.floor(((column + 1) * values.length) / columns))
    const own = values.slice(from, to).filter(Number.isFinite)
    return own.length === 0 ? undefined : mean(own)
  })
}

/** The numbers beside the curve. */
function summary(values: readonly number[]): string[] {
  const part = (share: number) => Math.max(1, Math.round(share * values.length))
  const window = part(0.1)
  const means = Array.from({ length: values.length - window + 1 }, (_, from) => mean(values.slice(from, from + window)))
  return [
    `last 20 %   ${fixed(mean(values.slice(-part(0.2))))}`,
    `best tenth  ${fixed(Math.max(...means))}`,
    `first 5 %   ${fixed(mean(values.slice(0, part(0.05))))}`,
  ]
}
