/** The known name that takes the fewest edits (Levenshtein distance) to reach from `name`. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let least = Infinity
  for (const candidate of known) {
    const distance = edits(name.toLowerCase(), candidate.toLowerCase())
    if (distance < least) [best, least] = [candidate, distance]
  }
  return best
}

function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, k) => k)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length]!
}
