import { textOf } from '@selfplay/renderers'
import { describe, expect, it } from 'vitest'
import { kuhnPoker } from '../games/kuhn-poker.js'
import { rockPaperScissors } from '../games/rock-paper-scissors.js'
import { optimalTicTacToe, ticTacToe } from '../games/tic-tac-toe.js'
import { playEnv } from '../play-env.js'
import { randomMoves, scripted } from '../policies/scripted.js'
import type { Game } from './game.js'
import { GameEnv, type GameEnvOptions } from './game-env.js'

const seed = 4

describe('GameEnv', () => {
  it('plays a game from one seat', async () => {
    const env = new GameEnv(ticTacToe, { seat: 0, opponents: { 1: scripted(['[4]', '[5]']) }, seed })
    const episode = await playEnv(env, scripted(['[1]', '[2]', '[3]']))
    expect(episode).toMatchObject({ reward: 1, stopReason: 'completed', turns: { length: 3 } })
    expect(textOf(episode.transcript[0]!)).toContain('as X')
  })

  it('lets the others move first, and at the same time', async () => {
    const second = new GameEnv(ticTacToe, { seat: 1, opponents: { 0: optimalTicTacToe('first') }, seed })
    const episode = await playEnv(second, scripted(['[1] I insist']))
    expect(textOf(episode.transcript[1]!)).toContain('X')
    expect(episode.reward).toBe(-1) // the first best cell is 1, which is taken
    const together = new GameEnv(rockPaperScissors(2), {
      seat: 1,
      opponents: { 0: scripted(['[rock]', '[paper]']) },
      seed,
    })
    expect((await playEnv(together, scripted(['[paper]', '[scissors]']))).reward).toBe(1)
  })

  it('says at the end how it went, as far as the seat may know', async () => {
    const last = async (env: GameEnv<never, never>, ...moves: string[]) => {
      const { transcript } = await playEnv(env, scripted(moves))
      return textOf(transcript.at(-1)!)
    }
    const env = <S, M>(game: Game<S, M>, own: number, ...moves: string[]) =>
      new GameEnv(game, { seat: own, opponents: { [1 - own]: scripted(moves) }, seed }) as unknown as GameEnv<
        never,
        never
      >
    expect(await last(env(ticTacToe, 0, '[4]', '[5]'), '[1]', '[2]', '[3]')).toBe('X X X\nO O 6\n7 8 9\nYou won.')
    expect(await last(env(ticTacToe, 1, '[1]', '[2]', '[3]'), '[4]', '[5]')).toMatch(/You lost\.$/)
    expect(await last(env(rockPaperScissors(1), 1, '[rock]'), '[paper]')).toBe(
      'You threw paper, the other rock. You won.',
    )
    expect(await last(env(rockPaperScissors(1), 0, '[rock]'), '[rock]')).toMatch(/It is a draw\.$/)
    expect(await last(env(kuhnPoker, 0, '[pass]'), '[bet]')).toBe('Moves so far: bet, pass. You won 1 chip.')
    expect(await last(env(kuhnPoker, 1, '[bet]'), '[bet]')).toMatch(
      /^Moves so far: bet, bet\. Your card is the \w+, the other the \w+\. You (won|lost) 2 chips\.$/,
    )
    const parts = Object.entries(ticTacToe).filter(([name]) => name !== 'outcome')
    const silent = Object.fromEntries(parts) as unknown as typeof ticTacToe
    expect(await last(env(silent, 0, '[4]', '[5]'), '[1]', '[2]', '[3]')).toBe('[3]')
  })

  it('pays for an illegal move and says why', async () => {
    const env = new GameEnv(kuhnPoker, { seat: 0, opponents: { 1: randomMoves() }, seed, illegalMoveReward: -3 })
    const episode = await playEnv(env, scripted(['[fold]']))
    expect(episode).toMatchObject({ reward: -3, turns: [{ metrics: { illegal_move: 1 } }] })
    expect(episode.turns[0]!.logs['illegal_move']).toContain('[fold]')
  })

  it('is the same game for the same seed', async () => {
    const play = async (own: number) => {
      const env = new GameEnv(ticTacToe, { seat: 0, opponents: { 1: randomMoves() }, seed: own })
      return JSON.stringify((await playEnv(env, randomMoves(), { seed: 1 })).transcript)
    }
    expect(await play(1)).toBe(await play(1))
    expect(await play(1)).not.toBe(await play(2))
  })

  it('fails with an opponent that fails; that is no result', async () => {
    const env = new GameEnv(ticTacToe, { seat: 0, opponents: { 1: scripted([]) }, seed })
    await expect(playEnv(env, scripted(['[1]']))).rejects.toThrow(/opponent in seat 1 failed \(crash\)/)
  })

  it('lets a substitute move for an opponent whose move is not legal, and counts it', async () => {
    const opponents = { 1: scripted(['I resign.', '[5]', '[6]']) }
    const env = new GameEnv(ticTacToe, { seat: 0, opponents, substitute: scripted(['[4]']), seed })
    const episode = await playEnv(env, scripted(['[1]', '[2]', '[3]']))
    expect(episode.reward).toBe(1)
    expect(episode.turns.map(({ metrics }) => metrics)).toEqual([{ substituted_moves: 1 }, {}, {}])
    const crash = new GameEnv(ticTacToe, { seat: 0, opponents: { 1: scripted([]) }, substitute: randomMoves(), seed })
    await expect(playEnv(crash, scripted(['[1]']))).rejects.toThrow(/opponent in seat 1 failed \(crash\)/)
  })

  it('refuses seats that do not fit', () => {
    const make = (options: Partial<GameEnvOptions>) => () =>
      new GameEnv(ticTacToe, { seat: 0, opponents: {}, seed, ...options })
    expect(make({ seat: 2 })).toThrow(/seats 0 to 1, got 2/)
    expect(make({})).toThrow(/nobody plays seat 1 \(O\)/)
  })
})
