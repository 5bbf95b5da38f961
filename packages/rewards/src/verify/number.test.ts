import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseExpression } from '../math/parse.js'
import { extract } from './extract.js'
import { verifyMath, verifyNumber } from './number.js'

describe('verifyNumber', () => {
  it.each<[string, string | number]>([
    ['42', 42],
    ['42.', 42],
    ['+42.0', '42'],
    ['-7', -7],
    ['−7', -7],
    ['1,234,567.5', 1234567.5],
    ['$1,000', 1000],
    ['$\\$5.50$', '5.5'],
    ['0.1', 0.1],
    ['.5', '1/2'],
    ['3/4', 0.75],
    ['-3/4', '-.75'],
    ['\\frac{3}{4}', 0.75],
    ['\\dfrac34', 0.75],
    ['1 1/2', 1.5],
    ['1\\frac{1}{2}', 1.5],
    ['-1 1/2', -1.5],
    ['50%', 0.5],
    ['12.5\\%', '1/8'],
    ['1e-3', '0.001'],
    ['6.02 × 10^23', '6.02e23'],
    ['-1.5 \\times 10^{-3}', '-0.0015'],
    ['(5)', 5],
    ['0.30', '3/10'],
    ['12345678901234567890123', '12345678901234567890123'],
  ])('%j is %j', (answer, expected) => {
    expect(verifyNumber(answer, expected)).toMatchObject({ score: 1, reason: 'match' })
  })

  it.each([
    ['41', 42, 'mismatch'],
    ['12345678901234567890124', '12345678901234567890123', 'mismatch'],
    ['50', 0.5, 'mismatch'],
    ['1/0', 1, 'undefined_value'],
    ['forty-two', 42, 'unreadable'],
    ['the answer is 42', 42, 'unreadable'],
    ['42 apples', 42, 'unreadable'],
    ['40 + 2', 42, 'unreadable'],
    ['6*7', 42, 'unreadable'],
    ['12,34', 1234, 'unreadable'],
    ['1.2.3', 1, 'unreadable'],
    ['1e99999999', 1, 'unreadable'],
    ['', 42, 'unreadable'],
    ['NaN', 42, 'unreadable'],
    ['Infinity', 42, 'unreadable'],
  ])('%j is not %j: %s', (answer, expected, reason) => {
    expect(verifyNumber(answer, expected)).toMatchObject({ score: 0, reason })
  })

  it('tolerates as much as it is told', () => {
    expect(verifyNumber('3.14', Math.PI, { absolute: 0.01 }).score).toBe(1)
    expect(verifyNumber('3.1', Math.PI, { absolute: 0.01 }).score).toBe(0)
    expect(verifyNumber('101', 100, { relative: 0.01 }).score).toBe(1)
    expect(verifyNumber('102', 100, { relative: 0.01 }).score).toBe(0)
    expect(verifyNumber('0', 0, { relative: 0.01 }).score).toBe(1)
  })

  it('check 39: never takes a number that was merely mentioned', () => {
    const options = { extract: extract.boxed() }
    expect(verifyNumber('I had 41, then \\boxed{42}. 7 left', 42, options).score).toBe(1)
    expect(verifyNumber('so 42', 42, options)).toEqual({ score: 0, reason: 'no_answer' })
    expect(verifyNumber('\\boxed{42} or \\boxed{43}', 42, options).reason).toBe('several_answers')
  })

  it('is wrong about the task, not the answer, when the expected number is none', () => {
    for (const expected of ['x', '1+1', Number.NaN, '1/0', ''])
      expect(() => verifyNumber('1', expected)).toThrow(expect.objectContaining({ code: 'expected_answer' }))
  })

  it('reads every number as it is written', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(verifyNumber(String(value), value).score).toBe(1)
        expect(
          verifyNumber(value.toLocaleString('en-US', { maximumFractionDigits: 3 }), value, {
            absolute: 5e-4,
            relative: 1e-12,
          }).score,
        ).toBe(1)
      }),
      { numRuns: 300 },
    )
  })
})

describe('verifyMath', () => {
  it.each([
    ['2(x+1)', '2x + 2'],
    ['x^2 + 2xy + y^2', '(x+y)^2'],
    ['(x^2-1)/(x-1)', 'x+1'],
    ['\\frac{\\sqrt{2}}{2}', '1/sqrt(2)'],
    ['\\sqrt{8}', '2\\sqrt2'],
    ['2\\sqrt{3}', '\\sqrt{12}'],
    ['sin(x)^2 + cos(x)^2', '1'],
    ['\\sin^2 x + \\cos^2 x', '1'],
    ['\\tan x', 'sin x / cos x'],
    ['ln(e^2)', '2'],
    ['log(1000)', '3'],
    ['\\frac{\\pi}{2}', '0.5π'],
    ['2πr', '2*pi*r'],
    ['-2^2', '-4'],
    ['2^3^2', '512'],
    ['2^{-1}', '0.5'],
    ['4!', '24'],
    ['|-3|', '3'],
    ['|x - y|', 'abs(y - x)'],
    ['\\sqrt[3]{-8}', '-2'],
    ['8^{1/3}', '2'],
    ['x²', 'x*x'],
    ['\\left( x + 1 \\right)^2', 'x^2+2x+1'],
    ['x = 5', '5'],
    ['$x=\\frac{1}{2}$', '0.5'],
    ['1/2x', 'x/2'],
    ['\\alpha + \\beta', '\\beta+\\alpha'],
    ['e^(ln x)', 'x'],
    ['2 \\cdot 3 \\div 4', '1.5'],
    ['10^{-12}\\pi', '3.14159265358979323846e-12'],
    ['-x', '-1x'],
    ['1 - -1', '2'],
    ['x\\frac{1}{2}', 'x/2'],
  ])('%j is %j', (answer, expected) => {
    expect(verifyMath(answer, expected)).toMatchObject({ score: 1, reason: 'match' })
  })

  it.each([
    ['x+1', 'x+2', 'mismatch'],
    ['x', 'y', 'mismatch'],
    ['\\sqrt{x^2}', 'x', 'mismatch'],
    ['3.14159', '\\pi', 'mismatch'],
    ['2 \\cdot 10^{-12}\\pi', '10^{-12}\\pi', 'mismatch'],
    ['sin(x)', 'cos(x)', 'mismatch'],
    ['1/(x-x)', '1', 'undefined_value'],
    ['\\sqrt{-1}', '1', 'undefined_value'],
    ['9^9^9^9', '1', 'undefined_value'],
    ['999999!', '1', 'undefined_value'],
    ['2 +', '2', 'unreadable'],
    ['2 3', '6', 'unreadable'],
    ['(2', '2', 'unreadable'],
    ['2)', '2', 'unreadable'],
    ['x = y = 5', '5', 'unreadable'],
    ['\\int x', 'x', 'unreadable'],
    ['1, 2', '1', 'unreadable'],
    ['', '1', 'unreadable'],
    ['('.repeat(1000) + '1' + ')'.repeat(999), '1', 'unreadable'],
    ['1'.repeat(3000), '1', 'unreadable'],
  ])('%j is not %j: %s', (answer, expected, reason) => {
    expect(verifyMath(answer, expected)).toMatchObject({ score: 0, reason })
  })

  it('agrees with JavaScript on what arithmetic means', () => {
    interface Written {
      readonly text: string
      readonly value: number
    }
    const number = fc.oneof(
      fc.nat(99).map((value) => ({ text: `${value}`, value })),
      fc.tuple(fc.nat(99), fc.nat(9)).map(([whole, part]) => ({ text: `${whole}.${part}`, value: whole + part / 10 })),
    )
    const { expression } = fc.letrec<{ expression: Written }>((tie) => {
      const both = fc.tuple(tie('expression'), tie('expression'))
      return {
        expression: fc.oneof(
          { depthSize: 'small' },
          number,
          both.map(([a, b]) => ({ text: `(${a.text} + ${b.text})`, value: a.value + b.value })),
          both.map(([a, b]) => ({ text: `${a.text}(${b.text})`, value: a.value * b.value })),
          both.map(([a, b]) => ({ text: `(${a.text})*-(${b.text})`, value: -(a.value * b.value) })),
          fc
            .tuple(number, tie('expression'))
            .map(([a, b]) => ({ text: `(${a.text} - (${b.text}))`, value: a.value - b.value })),
          tie('expression').map(({ text, value }) => ({ text: `-(${text})^2`, value: -(value ** 2) })),
        ),
      }
    })
    fc.assert(
      fc.property(expression, ({ text, value }) => {
        expect(verifyMath(`0 + (${text})`, value, { absolute: 1e-6, relative: 1e-9 }).score).toBe(1)
      }),
      { numRuns: 300 },
    )
  })

  it('reads anything without throwing, in little time', () => {
    const pieces = [
      '\\frac',
      '{',
      '}',
      '(',
      ')',
      '^',
      '1',
      '9',
      '!',
      '%',
      'x',
      'sin',
      '\\sqrt',
      '|',
      '-',
      '*',
      ' ',
      ',',
      '.',
      'e',
    ]
    const started = performance.now()
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 60 }), (parts) => {
        const { score } = verifyMath(parts.join(''), '1')
        expect([0, 1]).toContain(score)
      }),
      { numRuns: 1000 },
    )
    for (const nasty of [
      '9^'.repeat(900) + '9',
      '-'.repeat(1999) + '1',
      '1000!'.repeat(300),
      '{'.repeat(2000),
      '9'.repeat(1999) + '!',
    ])
      expect(verifyMath(nasty, '2').score).toBe(0)
    expect(performance.now() - started).toBeLessThan(10_000)
  })

  it('is wrong about the task when the expected expression has no value', () => {
    for (const expected of ['1/0', '2 +', 'sqrt(-1)'])
      expect(() => verifyMath('1', expected)).toThrow(expect.objectContaining({ code: 'expected_answer' }))
  })
})

describe('parseExpression', () => {
  it('binds a minus looser than a power, and implicit products like written ones', () => {
    expect(parseExpression('-x^2')).toMatchObject({ type: 'negate', of: { op: '^' } })
    expect(parseExpression('2x')).toEqual(parseExpression('2*x'))
    expect(parseExpression('2 3')).toBeUndefined()
  })
})
