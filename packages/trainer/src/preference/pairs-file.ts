import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { CheckpointError } from '@selfplay/engine'
import { z } from 'zod'
import { writeFileAtomic } from '../run/files.js'
import type { PreferencePair } from './pairs.js'

/** Version of `pairs.jsonl`. */
export const PAIRS_FORMAT = 1

const side = z.strictObject({
  text: z.string(),
  prompt: z.array(z.number()),
  tokens: z.array(z.number()),
  referenceLogprob: z.number(),
})
const pairSchema = z.strictObject({
  rowIndex: z.number(),
  winner: z.array(side),
  loser: z.array(side),
  winnerReward: z.number(),
  loserReward: z.number(),
})
const headSchema = z.object({ formatVersion: z.number(), pairs: z.number(), sha256: z.string() })

const plain = (pair: PreferencePair) => {
  const sides = (list: PreferencePair['winner']) =>
    list.map((one) => ({ ...one, prompt: [...one.prompt], tokens: [...one.tokens] }))
  return { ...pair, winner: sides(pair.winner), loser: sides(pair.loser) }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Writes pairs, whole or not at all: a first line that says how many there are and their SHA-256, then a line each. */
export async function writePairs(path: string, pairs: readonly PreferencePair[]): Promise<void> {
  const body = pairs.map((pair) => `${JSON.stringify(plain(pair))}\n`).join('')
  const head = { formatVersion: PAIRS_FORMAT, pairs: pairs.length, sha256: hashOf(body) }
  await writeFileAtomic(path, `${JSON.stringify(head)}\n${body}`)
}

/**
 * Reads what {@link writePairs} wrote; null when there is no such file.
 * @throws CheckpointError when it is damaged or newer.
 */
export async function readPairs(path: string): Promise<PreferencePair[] | null> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new CheckpointError(`${path} is not readable: ${String(error)}`, { path }, { cause: error })
  }
  const at = text.indexOf('\n') + 1
  const head = headSchema.safeParse(parse(text.slice(0, at)))
  if (head.success && head.data.formatVersion > PAIRS_FORMAT) {
    throw new CheckpointError(
      `${path} has format version ${head.data.formatVersion}; this version of selfplay reads up to ${PAIRS_FORMAT}: update it`,
      { path, formatVersion: head.data.formatVersion },
    )
  }
  const body = text.slice(at)
  if (!head.success || hashOf(body) !== head.data.sha256) {
    throw new CheckpointError(`${path} is not what was written: restore it, or start a new run`, { path })
  }
  return body
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => revive(pairSchema.parse(parse(line))))
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function revive(pair: z.output<typeof pairSchema>): PreferencePair {
  const sides = (list: typeof pair.winner) =>
    list.map((one) => ({ ...one, prompt: Int32Array.from(one.prompt), tokens: Int32Array.from(one.tokens) }))
  return { ...pair, winner: sides(pair.winner), loser: sides(pair.loser) }
}
