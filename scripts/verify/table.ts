import type { Finding } from './finding.js'

/** A finding with its place. */
export interface TableRow extends Finding {
  readonly check: string
  readonly seed: number
}

const HEAD = ['check', 'seed', 'what', 'value', 'bound', ''] as const

/** The findings as lines with aligned columns; those that do not hold say FAILED. */
export function table(rows: readonly TableRow[]): string {
  const cells = rows.map(({ check, seed, what, value, bound, holds }) => {
    return [check, String(seed), what, value, bound, holds ? 'ok' : 'FAILED']
  })
  const widths = HEAD.map((title, column) => Math.max(title.length, ...cells.map((line) => line[column]!.length)))
  const line = (entries: readonly string[]) =>
    entries
      .map((entry, i) => entry.padEnd(widths[i]!))
      .join('  ')
      .trimEnd()
  return [HEAD, ...cells].map(line).join('\n')
}
