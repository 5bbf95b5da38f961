import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RatingsDivergedError, bradleyTerry } from './bradley-terry.js'
import { EloRatings, eloExpected, eloGain } from './elo.js'
import { winRate } from './win-rate.js'

describe('Elo', () => {
  it('expects 10 to 1 at 400 points', () => {
    expect(eloExpected(1900, 1500)).toBeCloseTo(10 / 11, 12)
    expect(eloExpected(1500, 1500)).toBe(0.5)
  })

  it('check 35: a win, a draw and a loss equal the values worked by hand; what A gains, B loses', () => {
    const elo = new EloRatings({ k: 32 })
    expect(elo.record('A', 'B', 1)).toBe(16) // even players
    expect([elo.rating('A'), elo.rating('B')]).toEqual([1516, 1484])
    // the stronger one drew: expected 1/(1+10^(-32/400)) = 0.5459219228, so it loses 32 * 0.0459219228
    expect(elo.record('A', 'B', 0.5)).toBeCloseTo(-1.469501529, 8)
    expect(elo.rating('A')).toBeCloseTo(1514.530498471, 8)
    expect(elo.rating('B')).toBeCloseTo(1485.469501529, 8)
    // 29.060996942 points apart: expected 0.5417248743; losing costs 32 times that
    expect(elo.record('A', 'B', 0)).toBeCloseTo(-17.3351959791, 8)
    expect(elo.rating('A') + elo.rating('B')).toBeCloseTo(3000, 9)
    expect(elo.games('A')).toBe(3)
  })

  it('check 35: a draw of equals moves nothing, and no order of the seats changes a result', () => {
    expect(eloGain(1500, 1500, 0.5)).toBe(0)
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 3000, noNaN: true }),
        fc.double({ min: 0, max: 3000, noNaN: true }),
        fc.constantFrom(0, 0.5, 1),
        (a, b, score) => {
          expect(eloGain(a, b, score) + eloGain(b, a, 1 - score)).toBeCloseTo(0, 9)
        },
      ),
    )
  })

  it('goes on from its state bit for bit', () => {
    const one = new EloRatings()
    one.record('x', 'y', 1)
    const two = new EloRatings({ state: JSON.parse(JSON.stringify(one)) as ReturnType<EloRatings['toJSON']> })
    expect(two.record('y', 'z', 0.5)).toBe(one.record('y', 'z', 0.5))
    expect(two.ranking()).toEqual(one.ranking())
    expect(one.ranking().map(({ player }) => player)).toEqual(['x', 'z', 'y'])
  })

  it('refuses scores that are none, mirror games and newer states', () => {
    const elo = new EloRatings()
    expect(() => elo.record('a', 'b', 2)).toThrow(/0.5 \(drawn\)/)
    expect(() => elo.record('a', 'b', Number.NaN)).toThrow(/got NaN/)
    expect(() => elo.record('a', 'a', 1)).toThrow(/two players/)
    expect(() => new EloRatings({ state: { formatVersion: 2, ratings: {}, games: {} } as never })).toThrow(
      /formatVersion/,
    )
  })
})

describe('bradleyTerry', () => {
  it('finds the odds of two players, and of a chain of three', () => {
    const two = bradleyTerry(
      [
        { first: 'a', second: 'b', score: 1, count: 10 },
        { first: 'b', second: 'a', score: 1 },
      ],
      {
        priorDraws: 0,
      },
    )
    expect(two.get('a')! - two.get('b')!).toBeCloseTo(400, 4)
    const chain = bradleyTerry(
      [
        { first: 'a', second: 'b', score: 1, count: 10 },
        { first: 'b', second: 'a', score: 1 },
        { first: 'b', second: 'c', score: 1, count: 10 },
        { first: 'c', second: 'b', score: 1 },
      ],
      { priorDraws: 0, mean: 1000 },
    )
    expect([...chain.values()].map((rating) => Math.round(rating * 1e3) / 1e3)).toEqual([1400, 1000, 600])
  })

  it('satisfies the likelihood equations: expected wins are the wins', () => {
    const games = [
      { first: 'a', second: 'b', score: 1, count: 7 },
      { first: 'a', second: 'b', score: 0.5, count: 4 },
      { first: 'b', second: 'c', score: 0, count: 3 },
      { first: 'c', second: 'a', score: 1, count: 2 },
      { first: 'b', second: 'c', score: 1, count: 6 },
      { first: 'a', second: 'c', score: 1, count: 5 },
    ]
    const ratings = bradleyTerry(games, { priorDraws: 0 })
    for (const player of ratings.keys()) {
      let [won, expected] = [0, 0]
      for (const { first, second, score, count } of games) {
        if (player !== first && player !== second) continue
        const other = player === first ? second : first
        won += (player === first ? score : 1 - score) * count
        expected += eloExpected(ratings.get(player)!, ratings.get(other)!) * count
      }
      expect(expected).toBeCloseTo(won, 5)
    }
  })

  it('rates one who never lost with a prior, and says what is wrong without', () => {
    const games = [{ first: 'a', second: 'b', score: 1, count: 20 }]
    const ratings = bradleyTerry(games)
    expect(ratings.get('a')! - ratings.get('b')!).toBeGreaterThan(200)
    expect(ratings.get('a')! + ratings.get('b')!).toBeCloseTo(3000, 6)
    expect(() => bradleyTerry(games, { priorDraws: 0 })).toThrow(RatingsDivergedError)
  })

  it('does not care for the order of games or seats, and settles with many games', () => {
    const games = [
      { first: 'a', second: 'b', score: 1, count: 60_000 },
      { first: 'b', second: 'c', score: 1, count: 50_000 },
      { first: 'c', second: 'a', score: 1, count: 10_000 },
    ]
    const turned = games.map(({ first, second, score, count }) => ({
      first: second,
      second: first,
      score: 1 - score,
      count,
    }))
    const [one, two] = [bradleyTerry(games), bradleyTerry(turned.reverse())]
    for (const [player, rating] of one) expect(two.get(player)).toBeCloseTo(rating, 3)
    expect(bradleyTerry([])).toEqual(new Map())
  })

  it('refuses games that are none', () => {
    expect(() => bradleyTerry([{ first: 'a', second: 'a', score: 1 }])).toThrow(/two players/)
    expect(() => bradleyTerry([{ first: 'a', second: 'b', score: 3 }])).toThrow(/score in/)
  })
})

describe('winRate', () => {
  it.each([
    // published values of the Wilson interval
    [{ wins: 0, losses: 10 }, 0, 0, 0.2775327998628892],
    [{ wins: 10, losses: 0 }, 1, 0.7224672001371106, 1],
    [{ wins: 50, losses: 50 }, 0.5, 0.4038315303659956, 0.5961684696340044],
    [{ wins: 40, losses: 40, draws: 20 }, 0.5, 0.4038315303659956, 0.5961684696340044],
  ])('%j', (results, rate, low, high) => {
    const found = winRate(results)
    expect(found.rate).toBe(rate)
    expect(found.low).toBeCloseTo(low, 10)
    expect(found.high).toBeCloseTo(high, 10)
  })

  it('is wider for more confidence', () => {
    const width = (confidence: number) => {
      const { low, high } = winRate({ wins: 30, losses: 10 }, confidence)
      return high - low
    }
    expect(width(0.99)).toBeGreaterThan(width(0.9))
  })

  it('refuses no games and a confidence that is none', () => {
    expect(() => winRate({ wins: 0, losses: 0 })).toThrow(/at least one game/)
    expect(() => winRate({ wins: -1, losses: 2 })).toThrow(/counts/)
    expect(() => winRate({ wins: 1, losses: 2 }, 95)).toThrow(/confidence/)
  })
})
