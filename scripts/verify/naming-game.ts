import { join } from 'node:path'
import { parseGroupRecord, type GroupRecord } from '@selfplay/trainer'
import { loadAgents } from '../../packages/selfplay/src/agents.js'
import type { CheckContext, LearningCheck } from './check.js'
import { jsonLines, runExample } from './example-run.js'
import { atLeast, atMost, firstShare, lastShare, mean, type Finding } from './finding.js'

const PAIRINGS = 200
/** The cap of the example. */
const MAX_TOKENS = 96

/** What the naming game of `examples/` must come to. */
export const namingGameCheck: LearningCheck = {
  name: 'naming-game',
  about: 'four names for one thing compete, and the longer one wins each meeting: examples/naming-game.ts',
  run: (context) => verifyNamingGame(context),
}

/** @param args of the example, for shorter runs. */
export async function verifyNamingGame(
  context: CheckContext,
  args: readonly string[] = [],
): Promise<readonly Finding[]> {
  const { model, seed, directory, signal } = context
  const given = [model, '--seed', String(seed), '--output', directory, '--pairings', '0', ...args]
  const seconds = await runExample('naming-game.ts', given, signal)
  const metrics = await jsonLines<Record<string, number>>(directory, 'metrics.jsonl')
  const groups = (await jsonLines<unknown>(directory, 'rollouts.jsonl')).map((row) =>
    parseGroupRecord(JSON.stringify(row)),
  )
  const lengths = metrics.map((row) => row['env/all/ac_tokens_per_turn'] ?? Number.NaN)
  const gain = mean(lastShare(lengths, 0.2)) / mean(firstShare(lengths, 0.05))
  const sums = groups.map(({ members }) => Math.abs(members.reduce((sum, { groupReward }) => sum + groupReward, 0)))
  return [
    atMost('seconds from start to end', seconds, 120),
    atMost(
      `largest sum of the rewards of a group, of ${groups.length}`,
      sums.length === 0 ? NaN : Math.max(...sums),
      1e-6,
    ),
    atLeast('mean length over the last 20 % of updates by that of the first 5 %', gain, 1.5),
    atLeast(`pairings won against the start, of ${PAIRINGS}`, await wins(promptsOf(groups), context), 0.8 * PAIRINGS),
  ]
}

/** The prompts that were trained on, by their ids. */
const promptsOf = (groups: readonly GroupRecord[]): readonly (readonly number[])[] => {
  const prompts = groups.flatMap(({ members }) => members.map(({ turns }) => turns[0]!.prompt))
  return [...new Map(prompts.map((prompt) => [prompt.join(), prompt])).values()]
}

/** Pairings in which the trained policy's name is the longer one. A name without an end has length 0, a tie is no win. */
async function wins(
  prompts: readonly (readonly number[])[],
  { model, seed, directory, signal }: CheckContext,
): Promise<number> {
  const each = Math.ceil(PAIRINGS / prompts.length)
  const lengths: number[][] = []
  for (const [side, source] of [join(directory, 'model'), model].entries()) {
    const [agent] = await loadAgents(source, 1, { signal })
    const sampler = await agent!.sampler()
    const stop = agent!.info.eosTokenIds
    const own: number[] = []
    for (const [k, prompt] of prompts.entries()) {
      const request = { prompt: Int32Array.from(prompt), numSamples: each, maxTokens: MAX_TOKENS, stop: [...stop] }
      const names = await sampler.sample({ ...request, seed: 1000 * (seed + 1) + 2 * k + side }, { signal })
      own.push(...names.map(({ tokens, stopReason }) => (stopReason === 'stop' ? tokens.length : 0)))
    }
    lengths.push(own.slice(0, PAIRINGS))
    await agent!.dispose()
  }
  const [ours, theirs] = lengths
  return ours!.filter((length, k) => length > theirs![k]!).length
}
