import { describe, expect, it } from 'vitest'
import { comlrlRow } from './comlrl.js'

const given = { name: 'a run', ours: 0.25, reference: { comlrl: 3, trl: 2 }, target: 6 }

describe('a line against CoMLRL', () => {
  it('scales its time by that of TRL here over that of TRL there', () => {
    expect(comlrlRow({ ...given, trl: 1 })).toMatchObject({
      peer: 1.5,
      peerName: 'CoMLRL, scaled',
      ratio: 6,
      met: true,
    })
    expect(comlrlRow({ ...given, trl: 4 })).toMatchObject({ peer: 6, ratio: 24, met: true })
  })

  it('misses its target when ours is slower than that', () => {
    expect(comlrlRow({ ...given, trl: 0.9 })).toMatchObject({ target: 'ratio >= 6 (scaled)', met: false })
  })

  it('judges nothing without TRL', () => {
    expect(comlrlRow({ ...given, trl: null })).toMatchObject({ ours: 0.25, peer: 'not run', ratio: null, met: null })
  })
})
