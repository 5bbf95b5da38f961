import { follow } from '../deadline.js'
import { neverAborted } from '../on-abort.js'
import { EnvInputError } from '../errors.js'
import type { TrajectoryGroup } from '../group.js'
import { Limiter } from '../limiter.js'
import type { MessagePolicy } from '../policies/policy.js'
import { deriveSeed } from '../random.js'
import type { Trajectory, Transition } from '../types.js'
import type { Game } from './game.js'
import { checkMatch, playMatch, type MatchOptions, type MatchResult, type SeatResult } from './play-match.js'

export interface MatchesOptions extends MatchOptions {
  readonly matches: number
  /** Most matches at the same time. Default 64. */
  readonly concurrency?: number
}

/**
 * Plays several matches between the same policies; match i has a seed of its own.
 *
 * @returns the results in order, the same ones whatever the concurrency
 */
export async function playMatches<State, Move>(
  game: Game<State, Move>,
  policies: readonly MessagePolicy[],
  given: MatchesOptions,
): Promise<MatchResult[]> {
  checkMatch('playMatches', given)
  const { matches, concurrency = 64, signal = neverAborted, seed, ...options } = given
  for (const [name, value] of Object.entries({ matches, concurrency }))
    if (!Number.isInteger(value) || value < 1)
      throw new EnvInputError(`${name}: expected an integer of at least 1, got ${value}`)
  const limiter = new Limiter(concurrency)
  const { controller, release } = follow(signal)
  const play = async (_: unknown, index: number) => {
    try {
      const own = { ...options, seed: deriveSeed(seed, index), signal: controller.signal }
      return await limiter.run(() => playMatch(game, policies, own), controller.signal)
    } catch (error) {
      controller.abort(error)
      throw error
    }
  }
  const settled = await Promise.allSettled(Array.from({ length: matches }, play))
  release()
  signal.throwIfAborted()
  if (controller.signal.aborted) throw controller.signal.reason
  return settled.map((one) => (one as PromiseFulfilledResult<MatchResult>).value)
}

/**
 * Groups for training: the matches of one seat are one group, so that a seat is compared with itself. Seats that sampled nothing
 * have none. A seat without a reward in a match is left out there, with its verdict as the reason.
 */
export function seatGroups(matches: readonly MatchResult[]): TrajectoryGroup[] {
  const seats = matches[0]?.seats ?? []
  return seats.flatMap(({ seat, name }) => {
    const results = matches.map((match) => match.seats[seat]!)
    return results.some((result) => result.transitions.length > 0) ? [seatGroup(matches, results, name)] : []
  })
}

function seatGroup(matches: readonly MatchResult[], results: readonly SeatResult[], name: string): TrajectoryGroup {
  const played = results.map((result, slot) => ({ ...result, slot })).filter((one) => one.transitions.length > 0)
  const scored = played.flatMap((one) => (one.reward === null ? [] : [{ ...one, reward: one.reward }]))
  const members = scored.map(({ slot, reward, transitions }) => ({
    slot,
    attempt: 0,
    trajectory: trajectoryOf(transitions),
    groupReward: 0,
    reward,
    metrics: {},
  }))
  const excluded = played.flatMap(({ slot, reward, verdict, transitions }) =>
    reward === null ? [{ slot, trajectory: trajectoryOf(transitions), reason: verdict.kind }] : [],
  )
  const failures = results.flatMap(({ verdict }, slot) =>
    verdict.kind === 'crash' || verdict.kind === 'timeout'
      ? [{ slot, attempt: 0, boundary: 'sampler' as const, code: verdict.code, message: verdict.message }]
      : [],
  )
  const status = members.length === matches.length ? 'complete' : members.length > 0 ? 'partial' : 'failed'
  const reason = status === 'failed' ? { reason: `${name} has a reward in none of ${matches.length} matches` } : {}
  const tags = [matches[0]!.game, `seat/${name}`]
  return { status, size: matches.length, members, excluded, failures, tags, metricReducers: {}, ...reason }
}

function trajectoryOf(transitions: readonly Transition[]): Trajectory {
  const { observation, action } = transitions.at(-1)!
  return { transitions, finalObservation: Int32Array.from([...observation, ...action.tokens]), stopReason: 'completed' }
}
