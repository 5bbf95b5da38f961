import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { GroupRecord } from '../record.js'
import { lineChart, pointTable, ticks } from './chart.js'
import { escapeHtml, fragment } from './html.js'
import { renderReport } from './report.js'

const nasty = `</pre><script>alert(1)</script>"'& \u202egnp.exe\u0007`

const group: GroupRecord = {
  formatVersion: 1,
  step: 3,
  group: 0,
  tags: [nasty],
  status: 'partial',
  use: 'trained',
  reason: nasty,
  size: 2,
  metricReducers: {},
  members: [
    {
      slot: 1,
      stopReason: 'completed',
      attempt: 0,
      reward: 1.5,
      groupReward: 0.5,
      metrics: {},
      returns: [1.5],
      advantages: [0.25],
      finalObservation: [],
      turns: [
        {
          kept: 0,
          prompt: [1],
          promptText: nasty,
          tokens: [2, 3],
          text: nasty,
          logprobs: [-1, -1],
          stopReason: 'stop',
          policyVersion: 2,
          masked: false,
          reward: 1,
          episodeDone: true,
          metrics: {},
          logs: {},
        },
      ],
    },
  ],
  excluded: [],
  failures: [{ slot: 0, attempt: 0, boundary: 'env', code: 'x', message: nasty }],
}

const rows = [1, 2, 3].map((step) => ({
  step,
  'env/all/reward/total': step / 3,
  'optim/lr': 0.1,
  [`env/${nasty}/x`]: 1,
}))

describe('a report', () => {
  const text = renderReport({
    name: nasty,
    rows,
    evaluations: [{ step: 0, 'test/env/all/reward/total': 0.5 }],
    groups: [group],
  })

  it('escapes whatever a model, a task or a user wrote', () => {
    expect(text).not.toContain('<script')
    for (const character of ['\u0007', '\u202e']) expect(text).not.toContain(character)
    expect(text.split(escapeHtml(nasty)).length - 1).toBeGreaterThan(6)
  })

  it('forbids scripts and remote parts, and allows exactly its own style', () => {
    const style = /<style>([\s\S]*)<\/style>/.exec(text)![1]!
    const hash = createHash('sha256').update(style, 'utf8').digest('base64')
    expect(text).toContain(
      `content="default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'"`,
    )
    expect(text).not.toMatch(/\b(src|href|action|style|on\w+)=/)
    expect(text).not.toMatch(/url\(|@import|https?:/)
  })

  it('has a table beside each chart, with the numbers of the chart', () => {
    const pairs = [...text.matchAll(/<div class="pair"><svg [\s\S]*?<\/svg><table>([\s\S]*?)<\/table><\/div>/g)]
    expect(pairs).toHaveLength(3)
    expect(text.match(/<svg /g)).toHaveLength(3)
    expect(pairs[0]![1]).toContain('<tr><td>3</td><td>1</td></tr>')
    expect(text).toContain('Evaluation: test/env/all/reward/total')
    expect(text).toContain('turn 1: reward 1, advantage 0.25, 2 tokens')
  })

  it('is a page before the first update, too', () => {
    expect(renderReport({ name: 'x', rows: [], evaluations: [], groups: [] })).toContain('none shown')
  })
})

describe('a chart', () => {
  it('draws what is finite, with gaps, and survives one value or none', () => {
    const chart = (ys: number[]) =>
      lineChart(
        't',
        ys.map((y, x) => ({ x, y })),
      ).markup
    expect(chart([1, 2, Number.NaN, 3, 4]).match(/<polyline/g)).toHaveLength(2)
    expect(chart([5])).toContain('<circle')
    expect(chart([2, 2, 2])).toContain('<polyline')
    expect(chart([Number.NaN])).toContain('no values yet')
    expect(chart([1, 2, 3])).not.toMatch(/NaN|Infinity/)
  })

  it('marks round numbers', () => {
    expect(ticks(0, 1).map((x) => Number(x.toFixed(3)))).toEqual([0, 0.5, 1])
    expect(ticks(-3, 17)).toEqual([0, 5, 10, 15])
  })

  it('a table has at most ten rows, first and last among them', () => {
    const points = Array.from({ length: 100 }, (_, x) => ({ x, y: x }))
    const { markup } = pointTable('y', points)
    expect(markup.match(/<tr><td>/g)).toHaveLength(10)
    expect(markup).toContain('<tr><td>0</td>')
    expect(markup).toContain('<tr><td>99</td>')
  })

  it('pieces of a page are escaped unless they are pieces', () => {
    const inner = fragment`<i>${1}</i>`
    expect(fragment`<b title="${'"'}">${'<'}${inner}</b>`.markup).toBe('<b title="&quot;">&lt;<i>1</i></b>')
  })
})
