import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { verifyJson } from './json.js'

const move = z.strictObject({ row: z.int().min(0).max(2), column: z.int().min(0).max(2) })

describe('verifyJson', () => {
  it('reads the whole text, or a fenced block', () => {
    expect(verifyJson('{"row":1,"column":2}', move)).toMatchObject({ score: 1, value: { row: 1, column: 2 } })
    expect(verifyJson('My move:\n```json\n{"row":0,"column":0}\n```\nGood luck!', move).value).toEqual({
      row: 0,
      column: 0,
    })
  })

  it.each([
    ['{"row":1}', 'invalid', /column/],
    ['{"row":1,"column":9}', 'invalid', /column/],
    ['{"row":1,"column":2,"x":3}', 'invalid', /x/],
    ["{'row':1}", 'unreadable', /JSON/],
    ['{"row":1,"column":NaN}', 'unreadable', /JSON/],
    ['', 'unreadable', /JSON/],
    ['[1', 'unreadable', /JSON/],
  ])('%s is %s', (answer, reason, detail) => {
    expect(verifyJson(answer, move)).toMatchObject({ score: 0, reason, detail: expect.stringMatching(detail) })
  })

  it('refuses two blocks', () => {
    expect(verifyJson('```json\n1\n```\n```json\n2\n```', z.number())).toEqual({ score: 0, reason: 'several_answers' })
  })

  it('is not impressed by depth or by odd keys', () => {
    expect(verifyJson('['.repeat(100_000) + ']'.repeat(100_000), move).score).toBe(0)
    const record = verifyJson('{"__proto__": {"row": 1}}', move)
    expect(record).toMatchObject({ score: 0, reason: 'invalid' })
  })

  it('wants a schema', () => {
    expect(() => verifyJson('1', { type: 'number' } as never)).toThrow(/zod schema/)
  })
})
