/** Something that a learning check found, held against its bound. */
export interface Finding {
  /** What was measured. */
  readonly what: string
  readonly value: string
  /** What it has to be. */
  readonly bound: string
  readonly holds: boolean
}

const shown = (value: number): string => (Number.isFinite(value) ? value.toFixed(3) : String(value))

/** NaN never holds. */
export const atLeast = (what: string, value: number, bound: number): Finding => ({
  what,
  value: shown(value),
  bound: `>= ${bound}`,
  holds: value >= bound,
})

/** NaN never holds. */
export const atMost = (what: string, value: number, bound: number): Finding => ({
  what,
  value: shown(value),
  bound: `<= ${bound}`,
  holds: value <= bound,
})

/** Whether all values are one and the same; an empty list is not. */
export function allSame(what: string, values: readonly string[]): Finding {
  const kinds = new Set(values).size
  return { what, value: kinds === 1 ? 'the same' : `${kinds} different`, bound: 'the same', holds: kinds === 1 }
}

/** Whether none of a number of cases is against the rule; no case at all proves nothing. */
export const none = (what: string, against: number, cases: number): Finding => ({
  what,
  value: `${against} of ${cases}`,
  bound: 'none',
  holds: against === 0 && cases > 0,
})

/** @returns NaN for an empty list. */
export const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** The first `share` of a list, at least one entry. */
export const firstShare = <T>(list: readonly T[], share: number): readonly T[] =>
  list.slice(0, Math.max(1, Math.ceil(share * list.length)))

/** The last `share` of a list, at least one entry. */
export const lastShare = <T>(list: readonly T[], share: number): readonly T[] =>
  list.slice(-Math.max(1, Math.ceil(share * list.length)))
