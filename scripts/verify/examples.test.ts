import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jsonLines, runExample } from './example-run.js'
import { verifyNamingGame } from './naming-game.js'
import { verifyPairwisePreference } from './pairwise-preference.js'

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-verify-examples-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const context = (name: string) => ({
  seed: 5,
  model: 'bundled:tiny',
  directory: join(folder, name),
  signal: new AbortController().signal,
})

describe('checks of examples', () => {
  it('read the naming game from its run folder, and measure its model themselves', async () => {
    const own = context('naming')
    const findings = await verifyNamingGame(own, ['--steps', '4'])
    const rows = await jsonLines<Record<string, number>>(own.directory, 'metrics.jsonl')
    const lengths = rows.map((row) => row['env/all/ac_tokens_per_turn']!)
    expect(lengths).toHaveLength(4)
    const [, sums, gain, wins] = findings
    expect(sums).toMatchObject({ what: 'largest sum of the rewards of a group, of 32', holds: true })
    expect(gain!.value).toBe((lengths[3]! / lengths[0]!).toFixed(3))
    // After four updates it is hardly better than its start: far from the bound, and not from a half.
    expect(Number(wins!.value)).toBeGreaterThan(60)
    expect(wins!.holds).toBe(false)
  })

  it('read what the judge and the policy have come to', async () => {
    const own = context('judge')
    const short = ['--names', '150', '--comparisons', '60', '--epochs', '1', '--steps', '1', '--pairings', '16']
    const [accuracy, byJudge, byRule] = await verifyPairwisePreference(own, short)
    const summary = JSON.parse(await readFile(join(own.directory, 'summary.json'), 'utf8')) as Record<string, number>
    expect(accuracy).toMatchObject({ value: summary['accuracy']!.toFixed(3), holds: false })
    expect(Number(accuracy!.value)).toBeGreaterThan(0)
    expect(byJudge!.value).toBe(summary['winRate']!.toFixed(3))
    expect(byRule!.value).toBe(summary['winRateByRule']!.toFixed(3))
  })

  it('tell why an example has failed, and let go of it when aborted', async () => {
    const { signal } = context('x')
    await expect(runExample('naming-game.ts', ['--nonsense'], signal)).rejects.toThrow(/ended with 1[\s\S]*--nonsense/)
    const stop = new AbortController()
    setTimeout(() => stop.abort(new Error('enough')), 300)
    await expect(runExample('naming-game.ts', ['--output', join(folder, 'stopped')], stop.signal)).rejects.toThrow(
      'enough',
    )
  })
})
