import { describe, expect, it } from 'vitest'
import { rewardCurve } from './curve.js'
import { counted, duration, fileSize, fixed, gibibytes, magnitude, short } from './numbers.js'
import { Progress, progressLine, type ProgressStep } from './progress.js'
import { labelled, screenOf, verbatim, wrap, type Screen } from './screen.js'
import { oneLine, stripControls } from './strip.js'

describe('numbers', () => {
  it('writes durations as a clock', () => {
    expect([0, 0.4, 7, 59.6, 723, 3723, 90_000].map(duration)).toEqual([
      '0:00',
      '0:00',
      '0:07',
      '1:00',
      '12:03',
      '1:02:03',
      '25:00:00',
    ])
    expect([null, Number.NaN, Infinity, -3].map(duration)).toEqual(['--:--', '--:--', '--:--', '0:00'])
  })

  it('writes counts with at most three digits', () => {
    expect([0, 870, 999.4, 999.6, 3140, 79_000, 999_600, 1_421_000, 2.5e9, Number.NaN].map(short)).toEqual([
      '0',
      '870',
      '999',
      '1 k',
      '3.14 k',
      '79 k',
      '1 M',
      '1.42 M',
      '2.5 G',
      '-',
    ])
    expect([0.0123, 0.84, 9.94, 53.2, 120].map(magnitude)).toEqual(['0.012', '0.84', '9.9', '53', '120'])
    expect([fixed(0.394), fixed(undefined), fixed(Number.NaN), gibibytes(1.5 * 2 ** 30)]).toEqual([
      '0.39',
      '-',
      '-',
      '1.5 GiB',
    ])
    expect([300, 12 * 2 ** 20, 2 ** 31].map(fileSize)).toEqual(['0.3 KiB', '12.0 MiB', '2.0 GiB'])
    expect([counted(1, 'prompt'), counted(10, 'prompt')]).toEqual(['1 prompt', '10 prompts'])
  })
})

describe('text of a model in a terminal', () => {
  it.each([
    ['colours and cursor', 'a\u001b[31mred\u001b[0m\u001b[2J\u001b[1;1Hb', 'aredb'],
    ['a window title', 'a\u001b]0;title\u0007b', 'ab'],
    ['a link', '\u001b]8;;http://x.example\u001b\\click\u001b]8;;\u001b\\', 'click'],
    ['a clipboard write ended by ST as C1', '\u001b]52;c;aGk=\u009cb', 'b'],
    ['C1 spellings', 'a\u009b31mb\u009d0;t\u0007c\u0090q\u009cd', 'abcd'],
    ['a device control string', '\u001bP+q544e\u001b\\x', 'x'],
    ['resets', 'a\u001bcb\u001b(0c', 'abc'],
    ['C0', 'a\u0007\b\u0000\rb\u007f', 'ab'],
    ['marks that turn text around', 'a\u202etxt.exe\u202c\u2066b\u2069\u200f\u061c', 'atxt.exeb'],
    ['lone surrogates', 'a\ud800b', 'a\ufffdb'],
    ['other line ends', 'a\r\nb\u2028c\u0085d', 'a\nb\nc\nd'],
    ['what is only text', 'naïve 名前 👩‍🚀\n\tok [31m', 'naïve 名前 👩‍🚀\n\tok [31m'],
    ['an escape that hides another', '\u001b\u001b[31m[32mx', '[32mx'],
  ])('loses %s', (_, text, expected) => {
    expect(stripControls(text)).toBe(expected)
  })

  it('never holds a control after stripping, whatever came', () => {
    const alphabet = [
      '\u001b',
      '\u009b',
      '\u009d',
      '[',
      ']',
      '0',
      ';',
      'm',
      '\u0007',
      '\\',
      '\u009c',
      'P',
      'x',
      '\r',
      '\u202e',
    ]
    let seed = 7
    const next = () => (seed = (seed * 1103515245 + 12345) % 2 ** 31)
    for (let trial = 0; trial < 2000; trial++) {
      const text = Array.from({ length: 1 + (next() % 12) }, () => alphabet[next() % alphabet.length]).join('')
      // oxlint-disable-next-line no-control-regex -- that is what is looked for
      expect(stripControls(text)).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/u)
    }
  })

  it('fits on one line, cut between code points', () => {
    expect(oneLine('  two\n\n lines ', 40)).toBe('two lines')
    expect(oneLine('👩👩👩👩👩👩', 5)).toBe('👩👩...')
    expect(oneLine('\u001b]0;t\u0007', 5)).toBe('')
  })
})

describe('the reward curve', () => {
  const rising = Array.from({ length: 160 }, (_, i) => i / 159)

  it('rises where the rewards rise, in ASCII, with its numbers beside it', () => {
    const curve = rewardCurve(rising, { width: 100 })
    // oxlint-disable-next-line no-control-regex -- ASCII is a range that begins with controls
    expect(curve).toMatch(/^[\u0000-\u007f]+$/)
    const rows = curve.split('\n').slice(0, 6)
    const leftmost = rows.map((row) => row.slice(8, 68).search(/[.'-]/))
    expect(leftmost).toEqual(leftmost.toSorted((a, b) => b - a))
    expect(leftmost.at(-1)).toBe(0)
    expect(rows[0]).toMatch(/^ {2}1\.00 \|.*['-] +last 20 % {3}0\.90$/)
    expect(curve).toContain('first 5 %   0.02')
    expect(curve).toContain('best tenth  0.95')
    expect(curve).toMatch(/ 1 +160 updates\n$/)
    expect(Math.max(...curve.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
  })

  it('puts the numbers below where there is no room beside', () => {
    const curve = rewardCurve(rising, { width: 40 })
    expect(curve).toMatch(/updates\nlast 20 % {3}0\.90\nbest tenth {2}0\.95\nfirst 5 % {3}0\.02\n$/)
    expect(Math.max(...curve.split('\n').map((line) => line.length))).toBeLessThanOrEqual(40)
  })

  it('widens its range for rewards outside 0 to 1, and leaves gaps for missing ones', () => {
    const curve = rewardCurve([-2, Number.NaN, 4], { width: 100 })
    expect(curve.split('\n')[0]).toMatch(/^ {2}4\.00 \|/)
    expect(curve.split('\n')[5]).toMatch(/^ -2\.00 \|/)
    const middle = curve.split('\n').map((line) => line.slice(8 + 21, 8 + 39))
    expect(middle.slice(0, 6).join('').trim()).toBe('')
  })

  it('shows one update, equal rewards, and none', () => {
    expect(rewardCurve([0.5], { width: 100 })).toContain('last 20 %   0.50')
    expect(rewardCurve([0.5], { width: 100 })).toMatch(/ 1 update\n$/)
    expect(rewardCurve([-1, -1], { width: 100 })).toContain(' 0.00 |')
    expect(rewardCurve([], { width: 100 })).toBe('no rewards yet\n')
    expect(rewardCurve([Number.NaN], { width: 100 })).toBe('no rewards yet\n')
  })
})

const step: ProgressStep = {
  step: 118,
  total: 160,
  rewards: [0.91],
  gradient: 0.84,
  tokensPerSecond: 3100,
  etaSeconds: 14,
  isLogged: true,
}

describe('the progress line', () => {
  it('has a bar in a terminal and the gradient in a file', () => {
    const ten = { means: [0.912], updates: 10 }
    expect(progressLine(step, ten, 100, true)).toBe(
      '  update 118/160  reward 0.91 (mean of 10)  #####################-------  3.1 k tok/s  0:14 left',
    )
    expect(progressLine(step, ten, 80, true)).toBe(
      '  update 118/160  reward 0.91 (mean of 10)  ########---  3.1 k tok/s  0:14 left',
    )
    expect(progressLine(step, ten, 80, false)).toBe(
      '  update 118/160  reward 0.91 (mean of 10)  gradient 0.84  3.1 k tok/s  0:14 left',
    )
    expect(
      progressLine({ ...step, gradient: undefined, total: null }, { means: [Number.NaN], updates: 0 }, 80, false),
    ).toBe('  update 118  reward -  gradient -  3.1 k tok/s  0:14 left')
  })

  it('shows the reward of each turn where there are several', () => {
    const screen = recorder(false)
    const progress = new Progress(screen)
    progress.update({ ...step, rewards: [0.5, Number.NaN] })
    progress.update({ ...step, rewards: [0.7, 0.9] })
    const [first, second] = screen.written().split('\n')
    expect(first).toContain('  rewards 0.50 -> - (mean of 1)  ')
    expect(second).toContain('  rewards 0.60 -> 0.90 (mean of 2)  ')
  })

  it.each([80, 60, 45, 30, 20])('fits in %i columns', (width) => {
    const line = progressLine(step, { means: [0.912], updates: 10 }, width, true)
    expect(line.length).toBeLessThan(width)
    expect(line).toMatch(/^ {2}update 118\/160/)
  })
})

function recorder(live: boolean): Screen & { readonly written: () => string } {
  let text = ''
  return { live, colours: false, width: 80, write: (more) => void (text += more), written: () => text }
}

describe('progress', () => {
  it('rewrites its line in a terminal and prints above it', () => {
    const screen = recorder(true)
    const progress = new Progress(screen)
    progress.update({ ...step, step: 1, rewards: [0] })
    progress.update({ ...step, step: 2, rewards: [1] })
    progress.print('note      hello\n')
    progress.end()
    const lines = screen.written().split('\r\u001b[K')
    expect(lines[1]).toMatch(/update {3}1\/160 {2}reward 0\.00 \(mean of 1\)/)
    expect(lines[2]).toMatch(/update {3}2\/160 {2}reward 0\.50 \(mean of 2\)/)
    expect(lines[3]).toBe('note      hello\n')
    expect(lines[4]).toMatch(/update {3}2\/160.*\n$/)
  })

  it('writes a plain line per logged update elsewhere', () => {
    const screen = recorder(false)
    const progress = new Progress(screen)
    progress.update(step)
    progress.update({ ...step, isLogged: false })
    progress.print('note\n')
    progress.end()
    expect(screen.written().split('\n')).toHaveLength(3)
    // oxlint-disable-next-line no-control-regex -- that is what is looked for
    expect(screen.written()).not.toMatch(/[\u001b\r]/)
  })

  it('takes the mean of the last ten rewards, without those that are missing', () => {
    const screen = recorder(false)
    const progress = new Progress(screen)
    for (let i = 0; i < 20; i++) progress.update({ ...step, rewards: [i < 10 ? 0 : i % 2 === 0 ? 1 : Number.NaN] })
    // The last ten known rewards are five ones and five zeros.
    expect(screen.written().trimEnd().split('\n').at(-1)).toContain('reward 0.50 (mean of 10)')
  })
})

describe('the screen', () => {
  const stream = (isTTY: boolean, columns?: number, hasColors = true) => ({
    isTTY,
    ...(columns !== undefined && { columns }),
    hasColors: () => hasColors,
    write: () => true,
  })

  it('honours NO_COLOR, dumb terminals and files', () => {
    expect(screenOf(stream(true), {})).toMatchObject({ live: true, colours: true })
    expect(screenOf(stream(true), { NO_COLOR: '1' })).toMatchObject({ live: true, colours: false })
    expect(screenOf(stream(true), { NO_COLOR: '' })).toMatchObject({ colours: true })
    expect(screenOf(stream(true), { TERM: 'dumb' })).toMatchObject({ live: false, colours: false })
    expect(screenOf(stream(true, 80, false), {})).toMatchObject({ live: true, colours: false })
    expect(screenOf(stream(false), {})).toMatchObject({ live: false, colours: false })
  })

  it('follows the width, and takes 80 where there is none', () => {
    const resized = { isTTY: true, columns: 100, write: () => true }
    const screen = screenOf(resized, {})
    resized.columns = 50
    expect([screen.width, screenOf(stream(false), {}).width, screenOf(stream(true, 0), {}).width]).toEqual([50, 80, 80])
  })

  it('breaks long texts between words under their label, and leaves commands whole', () => {
    const screen = { ...recorder(false), width: 45 }
    const text = 'the quick brown fox jumps over the lazy dog again'
    expect(labelled(screen, 'note', text)).toBe(
      'note      the quick brown fox jumps over the\n          lazy dog again\n',
    )
    expect(verbatim(screen, 'go on', text)).toBe(`go on     ${text}\n`)
    expect(wrap('a-word-that-is-too-long b', 5)).toEqual(['a-word-that-is-too-long', 'b'])
    expect(labelled({ ...screen, colours: true }, 'note', 'x')).toBe('\u001b[1mnote      \u001b[22mx\n')
  })
})
