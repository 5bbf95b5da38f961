/** What one thing is called in different places; of these, the one that is known is meant. */
const SYNONYMS = [
  ['learningRate', 'agentLearningRate', 'lr'],
  ['numGenerations', 'generations', 'numSamples', 'groupSize'],
  ['maxNewTokens', 'maxTokens', 'maxGenerationTokens'],
  ['numTrainEpochs', 'epochs', 'numEpochs'],
  ['maxSteps', 'steps'],
]

/**
 * The known word that is nearest to the one given, or undefined when none is near. Another name for the same thing comes first.
 *
 * Near is at most max(2, a third of the word) edits away (Levenshtein 1966), or begun by the word, three letters at least.
 * Case, `_` and `-` do not count.
 */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const given = plain(word)
  const others = SYNONYMS.find((names) => names.some((name) => plain(name) === given)) ?? []
  const same = others.find((name) => plain(name) !== given && known.includes(name))
  if (same !== undefined) return same
  let best: string | undefined
  let least = Math.max(2, Math.ceil(word.length / 3)) + 1
  for (const name of known) {
    const candidate = plain(name)
    const distance = given.length >= 3 && candidate.startsWith(given) ? 0 : edits(given, candidate)
    if (distance < least) [best, least] = [name, distance]
  }
  return best
}

/** `did you mean "x"? ` after `before`, or nothing when no known word is near: a part of a message. */
export function didYouMean(word: string, known: readonly string[], before = ': '): string {
  const near = nearest(word, known)
  return near === undefined ? '' : `${before}did you mean ${JSON.stringify(near)}?`
}

const plain = (word: string) => word.toLowerCase().replace(/[_-]/g, '')

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
