import { describe, expect, it } from 'vitest'
import { mergeReducers, reduceMetrics } from './metrics.js'

describe('reduceMetrics', () => {
  const episodes = [
    [{ length: 2 }, { length: 4, correct: 1 }],
    [{ length: 6 }],
    [{ length: 8, parse_error: 1 }],
    [{ length: 9, 'stop/max_tokens': 1 }],
  ]

  it('counts every episode: what is absent is 0, except where declared', () => {
    expect(reduceMetrics(episodes)).toEqual({
      length: (3 + 6 + 8 + 9) / 4,
      correct: 0.25,
      parse_error: 0.25,
      'stop/max_tokens': 0.25,
    })
    expect(reduceMetrics(episodes, { correct: 'mean_present' })['correct']).toBe(1)
    expect(reduceMetrics(episodes, { correct: 'rate', length: 'sum' })).toMatchObject({ correct: 0.25, length: 29 })
  })

  it('check 51: 2 of 8 truncated are 0.25', () => {
    const eight = Array.from({ length: 8 }, (_, k) => [k < 2 ? { 'stop/max_tokens': 1 } : {}])
    expect(reduceMetrics(eight)).toEqual({ 'stop/max_tokens': 0.25 })
  })

  it('of nothing is nothing', () => {
    expect(reduceMetrics([])).toEqual({})
  })

  it('refuses a name that is declared in two ways', () => {
    expect(mergeReducers({ a: 'sum' }, undefined, { a: 'sum', b: 'rate' })).toEqual({ a: 'sum', b: 'rate' })
    expect(() => mergeReducers({ a: 'sum' }, { a: 'mean' })).toThrow(/"a" is declared both sum and mean/)
  })
})
