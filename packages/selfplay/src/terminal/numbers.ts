/** Seconds as `0:07`, `12:03` or `1:02:03`; `--:--` when unknown. */
export function duration(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return '--:--'
  const whole = Math.max(0, Math.round(seconds))
  const two = (value: number) => String(value).padStart(2, '0')
  const hours = Math.floor(whole / 3600)
  const minutes = Math.floor((whole % 3600) / 60)
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`
}

const UNITS = ['', ' k', ' M', ' G', ' T']

/** A count with at most three digits: `870`, `3.1 k`, `1.42 M`. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '-'
  let scaled = Math.abs(value)
  let unit = 0
  while (scaled >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000
    unit++
  }
  const digits = unit === 0 ? 0 : scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0
  const text = digits === 0 ? scaled.toFixed(0) : scaled.toFixed(digits).replace(/\.?0+$/, '')
  return `${value < 0 ? '-' : ''}${text}${UNITS[unit]}`
}

/** A size that may be small: two significant digits below 10, else like {@link short}. */
export const magnitude = (value: number): string => (Math.abs(value) < 9.95 ? value.toPrecision(2) : short(value))

/** Bytes as `1.5 GiB`. */
export function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`
}

/** The size of a file as `0.3 KiB`, `12.0 MiB` or `1.5 GiB`. */
export function fileSize(bytes: number): string {
  if (bytes >= 2 ** 30) return gibibytes(bytes)
  return bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 10).toFixed(1)} KiB`
}

/** A reward with two digits; `-` when there is none. */
export const fixed = (value: number | undefined): string =>
  value === undefined || !Number.isFinite(value) ? '-' : value.toFixed(2)

/** `1 prompt`, `10 prompts`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
