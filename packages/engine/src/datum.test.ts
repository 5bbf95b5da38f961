import { describe, expect, it } from 'vitest'
import { checkDatums, type Datum } from './datum.js'
import { InvalidInputError } from './errors.js'

const good: Datum = { tokens: Int32Array.of(1, 2), targets: Int32Array.of(2, 3) }

describe('checkDatums', () => {
  it('accepts what can be trained on', () => {
    expect(() => checkDatums([good], { vocabSize: 4, contextLength: 2 })).not.toThrow()
  })

  it.each<[string, Datum[], RegExp]>([
    ['nothing', [], /at least one datum/],
    ['an empty datum', [{ tokens: new Int32Array(0), targets: new Int32Array(0) }], /datum 0 is empty/],
    ['unequal lengths', [good, { ...good, weights: Float32Array.of(1) }], /datum 1: weights has length 1, expected 2/],
    ['an id outside the vocabulary', [{ ...good, targets: Int32Array.of(2, 4) }], /targets\[1\] is 4.*vocabulary of 4/],
    ['a negative id', [{ ...good, tokens: Int32Array.of(-1, 2) }], /tokens\[0\] is -1/],
    ['NaN', [{ ...good, advantages: Float32Array.of(1, Number.NaN) }], /advantages\[1\] is NaN/],
    ['a temperature of 0', [{ ...good, temperature: 0 }], /temperature must be/],
    ['too many positions', [{ tokens: new Int32Array(3), targets: new Int32Array(3) }], /3 positions.*context is 2/],
  ])('refuses %s', (_, data, message) => {
    expect(() => checkDatums(data, { vocabSize: 4, contextLength: 2 })).toThrow(InvalidInputError)
    expect(() => checkDatums(data, { vocabSize: 4, contextLength: 2 })).toThrow(message)
  })

  it('does not look at numbers of positions that are not trained', () => {
    const weights = Float32Array.of(0, 1)
    const samplerLogprobs = Float32Array.of(Number.NaN, -1)
    expect(() => checkDatums([{ ...good, weights, samplerLogprobs }])).not.toThrow()
  })
})
