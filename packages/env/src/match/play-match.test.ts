import { getRenderer, system, textOf, type Message } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { IllegalMoveError } from '../errors.js'
import { kuhnPoker } from '../games/kuhn-poker.js'
import { rockPaperScissors } from '../games/rock-paper-scissors.js'
import { optimalTicTacToe, ticTacToe } from '../games/tic-tac-toe.js'
import { modelPolicy } from '../policies/model.js'
import type { MessagePolicy } from '../policies/policy.js'
import { randomMoves, scripted } from '../policies/scripted.js'
import { Random } from '../random.js'
import { byteTokenizer, hang, scriptedSampler } from '../testing/index.js'
import { bracketedMove, type Game } from './game.js'
import { playMatches, seatGroups } from './matches.js'
import { playMatch, type MatchOptions } from './play-match.js'

const renderer = getRenderer('chatml', byteTokenizer(), { defaultSystem: null })
const seed = 1
const rewards = (result: { seats: readonly { reward: number | null }[] }) => result.seats.map((seat) => seat.reward)
const verdicts = (result: { seats: readonly { verdict: { kind: string } }[] }) =>
  result.seats.map((seat) => seat.verdict.kind)
const throws: MessagePolicy = () => {
  throw new RangeError('sampler down')
}

interface CountState {
  readonly order: readonly number[]
  readonly left: number
  readonly out: readonly number[]
}

/** Seats count down in the order 2, 1, 0; a seat that says [out] is out at once with -5, the others get 1 at the end. */
const countdown = (withdraw: boolean): Game<CountState, string> => ({
  name: 'countdown',
  seats: ['zero', 'one', 'two'],
  start: () => ({ order: [2, 1, 0], left: 6, out: [] }),
  toAct: ({ order, left }) => (left > 0 && order.length > 0 ? [order[0]!] : []),
  opening: (seat) => [system(`You are ${seat}.`)],
  observe: ({ left }) => `${left} left`,
  parse: (text) => bracketedMove(text),
  apply({ order, left, out }, moves) {
    const [seat, ...others] = order
    const isOut = moves.get(seat!) === 'out'
    return { order: isOut ? others : [...others, seat!], left: left - 1, out: isOut ? [...out, seat!] : out }
  },
  scores: ({ left, out }) => [0, 1, 2].map((seat) => (out.includes(seat) ? -5 : left === 0 ? 1 : null)),
  ...(withdraw
    ? { withdraw: ({ order, left, out }, seat) => ({ order: order.filter((one) => one !== seat), left, out }) }
    : {}),
})

describe('a match', () => {
  it('is played by the rules, each seat with its own conversation', async () => {
    const result = await playMatch(ticTacToe, [scripted(['[1]', '[2]', '[3]']), scripted(['[4]', '[5]'])], { seed })
    expect(result).toMatchObject({ game: 'tic-tac-toe', status: 'finished', turns: 5, faults: [] })
    expect(rewards(result)).toEqual([1, -1])
    expect(verdicts(result)).toEqual(['scored', 'scored'])
    expect(result.moves.map(({ seat, text }) => `${seat}${text}`)).toEqual(['0[1]', '1[4]', '0[2]', '1[5]', '0[3]'])
    expect(result.seats[0]!.transcript.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
    ])
    expect(textOf(result.seats[1]!.transcript[0]!)).toContain('as O')
  })

  it('never asks a seat that has no move: the loser of a finished game is not sampled again', async () => {
    const asked = [0, 0]
    const counting =
      (seat: number, moves: string[]): MessagePolicy =>
      (turn) => {
        asked[seat]!++
        return moves[turn.turn]!
      }
    await playMatch(ticTacToe, [counting(0, ['[1]', '[2]', '[3]']), counting(1, ['[4]', '[5]'])], { seed })
    expect(asked).toEqual([3, 2])
  })

  it('hides from a seat what it may not see', async () => {
    const views: unknown[] = []
    const told: string[] = []
    const watching: MessagePolicy = ({ view, messages }) => {
      views.push(view)
      told.push(messages.map(textOf).join())
      return '[bet]'
    }
    await playMatch(kuhnPoker, [watching, watching], { seed })
    for (const [k, view] of views.entries()) {
      expect(Object.keys(view as object).sort()).toEqual(['card', 'history'])
      const cards = ['jack', 'queen', 'king'].filter((card) => told[k]!.includes(`card is the ${card}`))
      expect(cards).toHaveLength(1)
    }
  })

  it('asks all seats of a simultaneous move at once, and waits for none before asking another', async () => {
    const order: string[] = []
    const slow =
      (name: string, ms: number): MessagePolicy =>
      async () => {
        order.push(`${name} asked`)
        await new Promise((resolve) => setTimeout(resolve, ms))
        order.push(`${name} answers`)
        return '[rock]'
      }
    const result = await playMatch(rockPaperScissors(1), [slow('left', 15), slow('right', 1)], { seed })
    expect(order).toEqual(['left asked', 'right asked', 'right answers', 'left answers'])
    expect(result.moves.map((move) => move.seat)).toEqual([0, 1])
    expect(rewards(result)).toEqual([0, 0])
  })

  it('check 32: with seat 1 of three eliminated, the order goes on 2, 0, 2, 0, and it is paid once', async () => {
    const loud =
      (move: string): MessagePolicy =>
      () =>
        `[${move}]`
    const result = await playMatch(countdown(false), [loud('on'), loud('out'), loud('on')], { seed })
    expect(result.moves.map((move) => move.seat)).toEqual([2, 1, 0, 2, 0, 2])
    expect(rewards(result)).toEqual([1, -5, 1])
    expect(result.seats[1]!.transcript).toHaveLength(3)
  })

  it('ends at maxTurns without a score for anybody', async () => {
    const endless: Game<number, string> = {
      ...(countdown(false) as unknown as Game<number, string>),
      start: () => 0,
      toAct: () => [0],
      observe: () => '',
      apply: (state) => state,
      scores: () => [null, null, null],
    }
    const result = await playMatch(endless, [() => '[x]', () => '[x]', () => '[x]'], { seed, maxTurns: 7 })
    expect(result).toMatchObject({ status: 'ended', turns: 7 })
    expect(rewards(result)).toEqual([null, null, null])
    expect(verdicts(result)).toEqual(['no_contest', 'no_contest', 'no_contest'])
  })

  it('refuses what cannot be played', async () => {
    await expect(playMatch(ticTacToe, [randomMoves()], { seed })).rejects.toThrow(/2 seats .* got 1/)
    const wrong = { seed, maxTurn: 3 } as MatchOptions
    await expect(playMatch(ticTacToe, [randomMoves(), randomMoves()], wrong)).rejects.toThrow(/"maxTurns"/)
  })
})

describe('a seat that fails', () => {
  const bystander: MessagePolicy = () => '[5]'

  it('check 38: when the sampler of a seat throws, the other one resolves, and the match says so', async () => {
    const started = performance.now()
    for (const policies of [
      [throws, bystander],
      [bystander, throws],
    ]) {
      const result = await playMatch(ticTacToe, policies, { seed })
      const broken = policies.indexOf(throws)
      expect(result).toMatchObject({ status: 'ended', faults: [{ kind: 'crash', seat: broken, code: 'RangeError' }] })
      expect(result.seats[broken]).toMatchObject({ reward: null, verdict: { kind: 'crash', message: 'sampler down' } })
      expect(result.seats[1 - broken]).toMatchObject({ reward: null, verdict: { kind: 'no_contest' } })
    }
    expect(performance.now() - started).toBeLessThan(1000)
  })

  it('check 38: in a simultaneous game too, and a seat that hangs is timed out', async () => {
    const result = await playMatch(rockPaperScissors(1), [hang, throws], { seed, turnTimeoutSeconds: 0.02 })
    expect(verdicts(result)).toEqual(['timeout', 'crash'])
    expect(rewards(result)).toEqual([null, null])
  })

  it('with an illegal move pays for it, and the innocent one gains nothing by it', async () => {
    const result = await playMatch(ticTacToe, [scripted(['[5]', '[5]']), scripted(['[1]'])], { seed })
    expect(result.seats[0]).toMatchObject({ reward: -1, verdict: { kind: 'illegal_move', code: 'taken' } })
    expect(result.seats[1]).toMatchObject({ reward: null, verdict: { kind: 'no_contest' } })
    const free = await playMatch(ticTacToe, [scripted(['x']), bystander], { seed, illegalMoveReward: null })
    expect(rewards(free)).toEqual([null, null])
  })

  it('may be tried again after an illegal move, with the reason', async () => {
    const told: string[] = []
    const learner: MessagePolicy = ({ messages, turn }) => {
      told.push(textOf(messages.at(-1)!))
      return ['five', '[5]', '[1]', '[9]'][turn]!
    }
    const other = scripted(['[2]', '[3]'])
    const result = await playMatch(ticTacToe, [learner, other], { seed, illegalMoveRetries: 1 })
    expect(result.status).toBe('finished')
    expect(told[1]).toMatch(/no legal move: .*square brackets/)
  })

  it('is scored by the rule that the caller sets', async () => {
    const onFault = ({ seat }: { seat: number }) => (seat === 0 ? [-1, 1] : [1, -1])
    const result = await playMatch(ticTacToe, [throws, bystander], { seed, onFault })
    expect(rewards(result)).toEqual([-1, 1])
    expect(verdicts(result)).toEqual(['crash', 'scored'])
  })

  it('leaves, and the others play on, where the game allows it', async () => {
    const on: MessagePolicy = () => '[on]'
    const result = await playMatch(countdown(true), [on, throws, on], { seed })
    expect(result.status).toBe('finished')
    expect(result.moves.map((move) => move.seat)).toEqual([2, 0, 2, 0, 2, 0])
    expect(rewards(result)).toEqual([1, null, 1])
    expect(verdicts(result)).toEqual(['scored', 'crash', 'scored'])
  })

  it('is not blamed for a bug of the game', async () => {
    const bug = (broken: Partial<Game<string, number>>) =>
      playMatch({ ...ticTacToe, ...broken }, [randomMoves(), randomMoves()], { seed })
    const oops = () => {
      throw new TypeError('oops')
    }
    for (const broken of [
      { start: oops },
      { toAct: oops },
      { observe: oops },
      { apply: oops },
      { scores: oops },
      { parse: oops },
    ]) {
      const result = await bug(broken)
      expect(result).toMatchObject({ status: 'failed', reason: 'tic-tac-toe: TypeError: oops' })
      expect(rewards(result)).toEqual([null, null])
    }
    expect((await bug({ scores: () => [null] })).reason).toMatch(/one per seat \(2\), got 1/)
    expect((await bug({ toAct: () => [] })).reason).toMatch(/seat 0 has no score/)
    expect((await bug({ toAct: () => [5] })).reason).toMatch(/seat 5, which does not exist/)
  })

  it('ends with everyone else when the whole is aborted', async () => {
    const controller = new AbortController()
    const playing = playMatch(rockPaperScissors(1), [hang, hang], { seed, signal: controller.signal })
    controller.abort(new Error('ctrl-c'))
    await expect(playing).rejects.toThrow('ctrl-c')
  })

  it('never stops the others from having their verdict, whatever fails where', async () => {
    const random = new Random(11)
    const faulty = (): MessagePolicy => {
      const own = new Random(random.word())
      return (turn) => {
        const draw = own.below(12)
        if (draw === 0) throw new Error('random fault')
        if (draw === 1) return hang()
        if (draw === 2) return 'no move at all'
        return turn.legalMoves ? own.pick(turn.legalMoves) : '[on]'
      }
    }
    const games = [ticTacToe, rockPaperScissors(3), kuhnPoker, countdown(true), countdown(false)] as Game[]
    const played = Array.from({ length: 150 }, (_, k) => {
      const game = games[k % games.length]!
      return playMatch(game, game.seats.map(faulty), { seed: k, turnTimeoutSeconds: 0.05 })
    })
    const results = await Promise.all(played)
    for (const result of results) {
      expect(result.status).not.toBe('failed')
      const unlike = result.seats.filter(({ verdict, reward }) =>
        verdict.kind === 'scored'
          ? typeof reward !== 'number'
          : reward !== (verdict.kind === 'illegal_move' ? -1 : null),
      )
      expect(unlike).toEqual([])
    }
    const kinds = new Set(results.flatMap(verdicts))
    expect([...kinds].sort((a, b) => a.localeCompare(b))).toEqual([
      'crash',
      'illegal_move',
      'no_contest',
      'scored',
      'timeout',
    ])
  })
})

describe('bracketedMove', () => {
  it('check 39: numbers outside brackets are thoughts', () => {
    expect(bracketedMove('I considered 4 but play [2]; 9 cells left')).toBe('2')
  })

  it.each([
    ['[2] or [3]', 'several_moves'],
    ['[2] [2]', 'several_moves'],
    ['I play 2', 'no_move'],
    ['[ ]', 'no_move'],
    ['', 'no_move'],
  ])('check 39: %j is typed as %s', (text, reason) => {
    const parse = () => bracketedMove(text)
    expect(parse).toThrow(IllegalMoveError)
    expect(parse).toThrow(expect.objectContaining({ code: 'illegal_move', details: { reason } }) as Error)
  })

  it('check 39: in a match', async () => {
    const thinking = scripted(['I considered 4 but play [2]; 9 cells left', '[3] or [4]'])
    const result = await playMatch(ticTacToe, [thinking, scripted(['[1]'])], { seed })
    expect(result.moves[0]).toMatchObject({ seat: 0, text: expect.stringContaining('[2]') as string })
    expect(result.seats[0]!.verdict).toMatchObject({ kind: 'illegal_move', code: 'several_moves' })
  })
})

describe('matches for training', () => {
  const model = (maxTokens = 40) =>
    modelPolicy({
      renderer,
      maxTokens,
      sample: scriptedSampler(renderer, (request, prompt) => {
        const free = [...prompt.split('user\n').at(-1)!.matchAll(/\d/g)].map(([cell]) => cell)
        return `I take [${new Random(request.seed!).pick(free)}]`
      }),
    })

  it('check 53: the same seed gives the same matches at any concurrency, another seed others', async () => {
    const play = (own: number, concurrency: number) =>
      playMatches(ticTacToe, [model(), randomMoves()], { seed: own, matches: 8, concurrency })
    const one = await play(5, 1)
    expect(JSON.stringify(await play(5, 8))).toBe(JSON.stringify(one))
    expect((await play(6, 8)).map((match) => match.moves)).not.toEqual(one.map((match) => match.moves))
    expect(new Set(one.map((match) => JSON.stringify(match.moves))).size).toBeGreaterThan(4)
  })

  it('check 53: hidden cards follow the seed', async () => {
    const dealt = async (own: number) => {
      const matches = await playMatches(kuhnPoker, [() => '[bet]', () => '[bet]'], { seed: own, matches: 12 })
      return matches.map((match) => textOf(match.seats[0]!.transcript[1] as Message)).join()
    }
    expect(await dealt(1)).toBe(await dealt(1))
    expect(await dealt(1)).not.toBe(await dealt(2))
  })

  it('keeps what a seat sampled, each prompt continuing the one before, and pays at the end', async () => {
    const { seats } = await playMatch(ticTacToe, [model(), optimalTicTacToe()], { seed: 3 })
    const { transitions, reward } = seats[0]!
    expect(transitions.length).toBeGreaterThan(1)
    for (const [k, { observation, action }] of transitions.slice(0, -1).entries()) {
      const before = [...observation, ...action.tokens]
      expect([...transitions[k + 1]!.observation].slice(0, before.length)).toEqual(before)
    }
    expect(transitions.map((t) => t.reward)).toEqual([...transitions.slice(1).map(() => 0), reward])
    expect(seats[1]!.transitions).toEqual([])
  })

  it('groups a seat with itself over the matches; a seat without a result is left out and is no 0', async () => {
    let calls = 0
    const flaky: MessagePolicy = (turn) => {
      if (turn.turn === 1 && calls++ === 1) throw new Error('lost')
      return model()(turn)
    }
    const options = { seed: 2, matches: 6, concurrency: 1 }
    const matches = await playMatches(ticTacToe, [model(), flaky], options)
    const [first, second, ...none] = seatGroups(matches)
    expect(none).toEqual([])
    expect(first).toMatchObject({ size: 6, tags: ['tic-tac-toe', 'seat/X'], failures: [] })
    expect(second).toMatchObject({ status: 'partial', failures: [{ boundary: 'sampler', message: 'lost' }] })
    expect(first!.excluded).toMatchObject([{ reason: 'no_contest' }])
    expect(second!.excluded).toMatchObject([{ reason: 'crash' }])
    expect(first!.members).toHaveLength(5)
    for (const { trajectory, reward } of first!.members) expect(trajectory.transitions.at(-1)!.reward).toBe(reward)
    expect(seatGroups(await playMatches(ticTacToe, [randomMoves(), randomMoves()], options))).toEqual([])
    expect(seatGroups([])).toEqual([])
  })

  it('a reply that is cut off or has no clean end is no move', async () => {
    const cut = await playMatch(ticTacToe, [model(3), randomMoves()], { seed })
    expect(cut.seats[0]!.verdict).toMatchObject({ kind: 'illegal_move', code: 'cut_off' })
    expect(cut.seats[0]!.transitions[0]).toMatchObject({ reward: -1, metrics: { illegal_move: 1 } })
    const unended = modelPolicy({ renderer, sample: scriptedSampler(renderer, [{ text: '[5]', end: 'none' }]) })
    const malformed = await playMatch(ticTacToe, [unended, randomMoves()], { seed })
    expect(malformed.seats[0]!.verdict).toMatchObject({ kind: 'illegal_move', code: 'malformed' })
  })

  it('says what is missing where there are no options or no policies', async () => {
    const policies = [randomMoves(), randomMoves()]
    await expect(playMatch(ticTacToe, policies, undefined as never)).rejects.toThrow(
      'such as { seed: 1 }, got undefined',
    )
    await expect(playMatches(ticTacToe, policies, undefined as never)).rejects.toThrow('playMatches: expected options')
    await expect(playMatch(ticTacToe, policies, {} as never)).rejects.toThrow('playMatch.seed is missing')
    await expect(playMatch(ticTacToe, undefined as never, { seed })).rejects.toThrow('needs a policy for each')
  })

  it('ends all when aborted', async () => {
    const controller = new AbortController()
    const running = playMatches(ticTacToe, [hang, hang], {
      seed,
      matches: 20,
      concurrency: 4,
      signal: controller.signal,
    })
    controller.abort(new Error('ctrl-c'))
    await expect(running).rejects.toThrow('ctrl-c')
  })
})
