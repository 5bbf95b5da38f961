import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { extractMatch, verifyRegex } from '../verify/regex.js'
import { LinearRegex } from './linear-regex.js'

/** The built-in engine's answer in our terms. */
function builtIn(source: string, flags: string, text: string) {
  const found = new RegExp(source, `${flags}u`).exec(text)
  return found ? { start: found.index, end: found.index + found[0].length, groups: [...found] } : undefined
}

const SAMPLES = [
  ['a|ab', '', 'xab'],
  ['(?:ab|a)(bc)?', '', 'abc'],
  ['(a+)(a*?)b', '', 'caaab'],
  ['^\\s*(\\d{1,3})(?:,(\\d{3}))*$', '', ' 12,345,678'],
  ['[^\\W\\d]+', '', '12 été 3'],
  ['\\p{Lu}\\p{Ll}+', '', 'wien und Österreich'],
  ['straße', 'i', 'STRASSE STRAẞE'],
  ['^b$', 'm', 'a\nb\nc'],
  ['a.c', '', 'a\nc'],
  ['a.c', 's', 'a\nc'],
  ['\\bfoo\\b', '', 'a foo, food'],
  ['\\Boo', '', 'foo'],
  ['x{2,4}?y', '', 'xxxxxy'],
  ['x{0}y', '', 'xy'],
  ['x{2}', '', 'xxx'],
  ['x{2,}', '', 'xxxx'],
  ['(?<year>\\d{4})-(?<month>\\d\\d)', '', 'on 2024-05-01'],
  ['\\u{1F600}.', '', 'a😀😀b'],
  ['[😀-😎]', '', '😅'],
  ['[\\]\\-a]+', '', ']-a'],
  ['\\x41\\u0042\\cJ', '', 'AB\n'],
  ['', '', 'abc'],
  ['a||b', '', 'b'],
  ['(a)|(b)', '', 'b'],
  ['(|a)*', '', 'aa'],
  ['(?:a?)*?b', '', 'aab'],
  ['.*', '', 'a\u2028b'],
] as const

describe('LinearRegex', () => {
  it.each(SAMPLES)('/%s/%s on %j is what the built-in engine says', (source, flags, text) => {
    expect(new LinearRegex(source, flags).exec(text)).toEqual(builtIn(source, flags, text))
  })

  it('agrees with the built-in engine on random patterns', () => {
    const { pattern } = fc.letrec<{ pattern: string; single: string }>((tie) => ({
      single: fc.oneof(
        fc.constantFrom('a', 'b', '.', '[ab]', '[^a]', '\\w', '^', '$', '\\b'),
        tie('pattern').map((inner) => `(${inner})`),
        tie('pattern').map((inner) => `(?:${inner})`),
      ),
      pattern: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom('a', 'b', 'ab', '[bc]', '\\d'),
        fc.tuple(tie('single'), fc.constantFrom('', '', 'a', 'b')).map((parts) => parts.join('')),
        fc
          .tuple(tie('pattern'), fc.constantFrom('*', '+', '?', '*?', '+?', '??', '{2}', '{1,2}', '{0,2}?'))
          .map(([inner, times]) => `(?:${inner})${times}`),
        fc.tuple(tie('pattern'), tie('pattern')).map((parts) => parts.join('|')),
        fc.tuple(tie('pattern'), tie('pattern')).map((parts) => parts.map((part) => `(?:${part})`).join('')),
      ),
    }))
    fc.assert(
      fc.property(
        pattern,
        fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\n', '1'), maxLength: 10 }),
        (source, text) => {
          // whether and where; captures in repetitions differ by design
          expect(new LinearRegex(source).exec(text)?.start).toBe(builtIn(source, '', text)?.start)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('takes time proportional to the text where the built-in engine takes for ever', () => {
    const started = performance.now()
    const text = `${'a'.repeat(20_000)}b`
    for (const source of ['^(a+)+$', '^(a|a)*$', '^(a|aa)+$', '^(.*a){12}$', '(x+x+)+y', '^(([a-z])+.)+[A-Z]([a-z])+$'])
      expect(new LinearRegex(source).test(text)).toBe(false)
    expect(performance.now() - started).toBeLessThan(15_000)
  })

  it.each([
    ['(a)\\1', /back reference/],
    ['(?<x>a)\\k<x>', /back reference/],
    ['a(?=b)', /look-around/],
    ['(?<!a)b', /look-around/],
    ['a{1000}{1000}', /no pattern|steps/],
    ['(?:a{100}){100}', /steps/],
    ['a{5,100000}', /steps/],
    ['(', /no pattern/],
    ['[b-a]', /no pattern/],
  ])('refuses /%s/', (source, message) => {
    expect(() => new LinearRegex(source)).toThrow(message)
    expect(() => new LinearRegex(source)).toThrow(expect.objectContaining({ code: 'unsupported_pattern' }))
  })

  it('takes a RegExp, and refuses the flags whose meaning it has not', () => {
    expect(new LinearRegex(/^A$/gim).exec('x\na')).toEqual({ start: 2, end: 3, groups: ['a'] })
    expect(() => new LinearRegex('a', 'y')).toThrow(/flags/)
    expect(() => new LinearRegex('a', 'v')).toThrow(/flags/)
  })

  it('goes on from a place, seeing what stands before it', () => {
    const word = new LinearRegex('\\b\\w')
    expect(word.exec('ab cd', 1)?.start).toBe(3)
    expect(new LinearRegex('^a').exec('aa', 1)).toBeUndefined()
    expect(new LinearRegex('.').exec('😀x', 2)).toEqual({ start: 2, end: 3, groups: ['x'] })
  })
})

describe('verifyRegex', () => {
  it('looks anywhere unless tied to the ends', () => {
    expect(verifyRegex('call 555-0100 now', /\d{3}-\d{4}/)).toMatchObject({ score: 1, reason: 'match' })
    expect(verifyRegex('call 555-0100 now', /^\d{3}-\d{4}$/)).toMatchObject({ score: 0, reason: 'mismatch' })
    expect(verifyRegex('x'.repeat(100_001), /x/)).toMatchObject({ score: 0, reason: 'unreadable' })
  })

  it('check 39: takes the only match as the answer, and none of several', () => {
    const move = extractMatch(/play (\d)/)
    expect(move('I considered 4 but play 2; 9 cells left')).toEqual({ ok: true, text: '2' })
    expect(move('play 2, no, play 3')).toEqual({ ok: false, reason: 'several_answers' })
    expect(move('pass')).toEqual({ ok: false, reason: 'no_answer' })
  })
})
