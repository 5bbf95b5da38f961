import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { extract } from './extract.js'
import { normaliseText, verifyText } from './text.js'

describe('verifyText', () => {
  it('compares as it is unless told otherwise', () => {
    expect(verifyText(' Paris\n', 'Paris')).toEqual({ score: 1, reason: 'match', answer: 'Paris' })
    expect(verifyText('paris', 'Paris')).toMatchObject({ score: 0, reason: 'mismatch' })
    expect(verifyText('paris', ['Lyon', 'paris']).score).toBe(1)
    expect(verifyText('I think it is Paris', 'Paris').score).toBe(0)
  })

  it.each([
    ['**Paris**.', 'paris'],
    ['the  Eiffel\tTower!', 'The Eiffel Tower'],
    ['ﬁne', 'fine'],
    ['３', '3'],
    ['Straße', 'straße'],
    ['well-known', 'well known'],
  ])('%j is %j once normalised', (answer, expected) => {
    expect(verifyText(answer, expected, { normalise: true }).score).toBe(1)
  })

  it.each([
    ['-5', '5'],
    ['3.14', '314'],
    ['50%', '50'],
    ['C++', 'C'],
    ['1:30', '130'],
    ['resumé', 'resume'],
    ['the end', 'end'],
  ])('%j is not %j even then', (answer, expected) => {
    expect(verifyText(answer, expected, { normalise: true }).score).toBe(0)
  })

  it('lets say what counts', () => {
    expect(verifyText('résumé', 'resume', { normalise: { accents: false } }).score).toBe(1)
    expect(verifyText('The end', 'an end', { normalise: { articles: false } }).score).toBe(1)
    expect(verifyText('athlete', 'athlete', { normalise: { articles: false } }).score).toBe(1)
    expect(verifyText('Paris', 'paris', { normalise: { case: true } }).score).toBe(0)
    expect(verifyText('a-b', 'ab', { normalise: { punctuation: true } }).score).toBe(0)
  })

  it('normalises what is normal to itself', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.record({ case: fc.boolean(), punctuation: fc.boolean(), articles: fc.boolean(), accents: fc.boolean() }),
        (text, options) => {
          const once = normaliseText(text, options)
          expect(normaliseText(once, options)).toBe(once)
        },
      ),
    )
  })

  it('refuses an expected text that no answer could miss, and unknown options', () => {
    expect(() => verifyText('x', '!', { normalise: true })).toThrow(/nothing is left/)
    expect(() => verifyText('x', [])).toThrow(/nothing is left/)
    expect(() => verifyText('x', 'x', { normalize: true } as object)).toThrow(/did you mean "normalise"/)
  })
})

describe('extract', () => {
  const several = { ok: false, reason: 'several_answers' }
  const none = { ok: false, reason: 'no_answer' }
  const found = (text: string) => ({ ok: true, text })

  it('check 39: takes the bracketed move and not a number that was mentioned; two moves are invalid', () => {
    const move = extract.bracketed()
    expect(move('I considered 4 but play [2]; 9 cells left')).toEqual(found('2'))
    expect(move('[2] or rather [3]')).toEqual(several)
    expect(move('[2] and again [2]')).toEqual(several)
    expect(move('I play 2')).toEqual(none)
    expect(verifyText('first [2], then [3]', '2', { extract: move })).toEqual({ score: 0, reason: 'several_answers' })
  })

  it('takes several answers as it is told', () => {
    expect(extract.bracketed({ several: 'same' })('[2] [2]')).toEqual(found('2'))
    expect(extract.bracketed({ several: 'same' })('[2] [3]')).toEqual(several)
    expect(extract.bracketed({ several: 'last' })('[2] [3]')).toEqual(found('3'))
    expect(() => extract.bracketed({ several: 'first' as 'last' })).toThrow(/refuse, same or last/)
  })

  it.each([
    ['bracketed, nested', extract.bracketed(), 'a [b [c] d', found('c')],
    ['bracketed, over lines', extract.bracketed(), '[a\nb]', none],
    ['bracketed, open', extract.bracketed(), 'x [2', none],
    ['tagged', extract.tagged('answer'), 'so <answer>\n 42 </answer>', found('42')],
    ['tagged, the inner of an unclosed one', extract.tagged('answer'), '<answer>1 <answer>2</answer>', found('2')],
    ['boxed', extract.boxed(), 'thus \\boxed{\\frac{1}{2}}.', found('\\frac{1}{2}')],
    ['boxed, open', extract.boxed(), '\\boxed{1', none],
    ['after', extract.after('####'), 'sum\n#### 42\nbye', found('42')],
    ['fenced', extract.fenced(['js']), 'see\n```js\nlet x\n```\n```py\ny\n```', found('let x')],
    ['fenced, any', extract.fenced(), '```js\nx\n```\n```py\ny\n```', several],
    ['fenced, open', extract.fenced(), '```js\nx', none],
    ['first of', extract.firstOf(extract.boxed(), extract.whole()), ' 42 ', found('42')],
    ['first of, several', extract.firstOf(extract.boxed(), extract.whole()), '\\boxed{1}\\boxed{2}', several],
  ])('%s', (_, extractor, text, result) => {
    expect(extractor(text)).toEqual(result)
  })

  it('refuses names and markers that are none', () => {
    expect(() => extract.tagged('<b>')).toThrow(/name of a tag/)
    expect(() => extract.after('')).toThrow(/marker/)
  })
})
