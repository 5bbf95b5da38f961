import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { check } from 'prettier'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cases } from '../cases/index.js'
import { row } from './case.js'
import { cells, digits, report } from './report.js'
import { readResults, RESULTS_FORMAT, writeResults, type CaseResult } from './results.js'

const result = (load: number): CaseResult => ({
  date: '2030-01-02T03:04:05.678Z',
  command: 'npm run bench -- decode-tiny',
  runs: 7,
  threads: 2,
  load: { average: load, idle: load < 0.5 },
  machine: { cpu: 'a processor', cores: 2, memory: 8 * 2 ** 30, platform: 'linux-x64', versions: { node: '20.0.0' } },
  floors: { gemm: 1.64e11, bandwidth: 2e10 },
  rows: [
    row({
      name: '16 rows, a step',
      unit: 'ms',
      ours: 0.4213,
      peer: 3.46,
      ratio: 8.2127,
      target: 'ratio >= 8',
      met: true,
    }),
    row({ name: 'a | b', unit: '%', ours: 71.26, peer: 'not run', target: '>= 80 %', met: false }),
  ],
  ours: { samples: [{ seconds: 0.4, values: { tokens: 64 } }] },
  peer: null,
})

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'selfplay-bench-test-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('results', () => {
  it('come back as they were written', async () => {
    const path = join(folder, 'results.json')
    expect(await readResults(path)).toEqual({})
    await writeResults(path, { 'decode-tiny': result(0.1) })
    expect(await readResults(path)).toEqual({ 'decode-tiny': result(0.1) })
  })

  it('of a newer format are refused by name', async () => {
    const path = join(folder, 'newer.json')
    await writeFile(path, JSON.stringify({ formatVersion: RESULTS_FORMAT + 1, cases: {} }))
    await expect(readResults(path)).rejects.toThrow(`format version ${RESULTS_FORMAT + 1}`)
  })
})

describe('report', () => {
  it('names every case, the machine and what was met, in the form that the format check wants', async () => {
    const text = await report(cases, { 'decode-tiny': result(0.1) })
    expect(await check(text, { parser: 'markdown', printWidth: 120 })).toBe(true)
    for (const { name } of cases) expect(text).toContain(`\`${name}\``)
    expect(text).toMatch(/\| 16 rows, a step +\| 0\.421 ms +\| 3\.46 +\| 8\.21x +\| - +\| ratio >= 8 +\| yes +\|/)
    expect(text).toMatch(/a \\\| b +\| 71\.3 % +\| not run +\| .* \| NO +\|/)
    expect(text).toContain('a processor, 2 cores, 8 GiB')
    expect(text).toContain('164 GFLOP/s')
    expect(text).not.toContain('busy')
  })

  it('says when the machine was not idle', async () => {
    expect(await report(cases, { 'decode-tiny': result(3) })).toContain('`decode-tiny` (busy machine)')
  })

  it('marks what was measured while the machine was far faster or slower than for the rest of its table', async () => {
    const at = (gemm: number, bandwidth: number) => ({ ...result(0.1), floors: { gemm, bandwidth } })
    const usual = { gemm: at(150e9, 25e9), sampler: at(160e9, 24e9), renderers: at(140e9, 22e9) }
    expect(await report(cases, usual)).not.toContain('(floors differ)')
    const text = await report(cases, { ...usual, 'decode-tiny': at(86e9, 24e9), vocabulary: at(150e9, 40e9) })
    const marked = [...text.matchAll(/^\| `([\w-]+)` \(floors differ\)/gm)].map(([, name]) => name)
    expect(new Set(marked)).toEqual(new Set(['decode-tiny', 'vocabulary']))
  })
})

describe('numbers', () => {
  it('have three digits that count', () => {
    expect([0.000_123_4, 1.239, 12.34, 123.4, 1234.5, 5120, 7, 0, NaN].map(digits)).toEqual(
      ['0.000123', '1.24', '12.3', '123', '1,235', '5,120', '7', '0', '-'], // prettier-ignore
    )
    expect(cells(row({ name: 'x', unit: 's', ours: 2, peer: 1, peerName: 'other' }))[2]).toBe('1 (other)')
  })
})
