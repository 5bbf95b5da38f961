import { describe, expect, it } from 'vitest'
import { quantile } from './measure.js'
import { measuredSection, replaceMeasured, type Measurements } from './report.js'

const measured: Measurements = {
  parameters: 853_632,
  bytes: 1_710_000,
  steps: 6000,
  trainedTokens: 7_600_000,
  minutes: 9.25,
  heldOutLoss: { all: 1.2, story: 1.25, chat: 1.1, feedback: 1.3 },
  endings: [{ kind: 'chat', samples: 400, endedShare: 0.9975, quantiles: [2, 5, 10, 40, 90] }],
  samples: [{ prompt: 'Tell a joke about foxes:', text: ' Two foxes\nmeet.', tokens: 5, ended: true }],
}

describe('the measured section', () => {
  it('states the numbers that were given', () => {
    const section = measuredSection(measured)
    expect(section).toContain('853,632 parameters, 1.71 MB')
    expect(section).toContain('7.6 million tokens in 9.3 minutes')
    expect(section).toContain('| ChatML conversation | 1.100 | 99.8 % | 2 | 5 | 10 | 40 | 90 |')
    expect(section).toContain('    Tell a joke about foxes: Two foxes\n    meet.')
  })

  it('replaces what stood between the markers, and only that', () => {
    const readme = 'a\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nb'
    expect(replaceMeasured(readme, 'new')).toBe('a\n<!-- measured: begin -->\n\nnew\n\n<!-- measured: end -->\nb')
    expect(() => replaceMeasured('nothing', 'new')).toThrow(/markers/)
  })
})

describe('quantile', () => {
  it('takes the nearest rank', () => {
    expect([0.05, 0.5, 0.95].map((share) => quantile([5, 1, 4, 2, 3], share))).toEqual([1, 3, 5])
    expect(quantile([], 0.5)).toBeNaN()
  })
})
