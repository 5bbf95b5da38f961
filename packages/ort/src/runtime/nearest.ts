import { InvalidInputError } from '@selfplay/engine'

/** Number of single-character edits between two words (Levenshtein 1966). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitute = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substitute, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[b.length]!
}

/** ` (did you mean "x"?)` for the candidate that is nearest to `name`, or what there is to choose from. */
export function suggestion(name: string, candidates: readonly string[]): string {
  if (candidates.length === 0) return ' (there are none)'
  const best = candidates.reduce((a, b) => (editDistance(name, b) < editDistance(name, a) ? b : a))
  if (editDistance(name, best) <= Math.max(2, Math.ceil(name.length / 2))) return ` (did you mean "${best}"?)`
  const shown = candidates.slice(0, 8).join(', ')
  return ` (known: ${shown}${candidates.length > 8 ? `, and ${candidates.length - 8} more` : ''})`
}

/** Refuses keys of `options` that are not in `known`. */
export function checkKeys(what: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw new InvalidInputError(`${what}: unknown option "${key}"${suggestion(key, known)}`, { option: key, known })
    }
  }
}
