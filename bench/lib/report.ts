import type { Case, Row, Section } from './case.js'
import type { AllResults, CaseResult } from './results.js'
import { median } from './statistics.js'

const SECTIONS: readonly (readonly [Section, string])[] = [
  ['speed', 'Speed'],
  ['memory', 'Memory'],
  ['checks', 'Checks'],
]

/** A number with three significant digits, and no fewer than it has before the point. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const size = Math.abs(value)
  if (size >= 1000) return Math.round(value).toLocaleString('en-US')
  if (size === 0 || Number.isInteger(value)) return String(value)
  return value.toPrecision(3)
}

/** The cells of a row, without its case. */
export function cells({ name, unit, ours, peer, peerName, ratio, floor, target, met }: Row): string[] {
  const shownPeer = typeof peer === 'number' ? digits(peer) : (peer ?? '-')
  return [
    name,
    `${digits(ours)} ${unit}`,
    typeof peer !== 'number' || peerName === null ? shownPeer : `${shownPeer} (${peerName})`,
    ratio === null ? '-' : `${digits(ratio)}x`,
    floor === null ? '-' : digits(floor),
    target ?? '-',
    met === null ? '-' : met ? 'yes' : 'NO',
  ]
}

export const HEADINGS = ['what', 'ours', 'peer', 'ratio', 'floor', 'target', 'met'] as const

const escape = (text: string) => text.replaceAll('|', '\\|')
const line = (entries: readonly string[]) => `| ${entries.map(escape).join(' | ')} |`

/** The whole of `RESULTS.md`, from what was measured of the known cases when each last ran. */
export async function report(cases: readonly Case[], results: AllResults): Promise<string> {
  const { format } = await import('prettier')
  const parts = [
    '# Benchmark results',
    HOW,
    machines(results),
    ...SECTIONS.flatMap(([section, title]) => sectionOf(section, title, cases, results)),
    '## What the cases do',
    ...cases.map(({ name, title, about }) => `**\`${name}\`: ${title}.** ${about}`),
  ]
  return format(parts.filter((part) => part !== '').join('\n\n'), { parser: 'markdown', printWidth: 120 })
}

const HOW = [
  'Written by `npm run bench` (see [README.md](README.md)). Ours and the peer run in turn, each in a process of its own on the same',
  'number of threads; numbers are medians of the runs. `ratio` says how many times better ours is. `floor` is the best that the',
  'measured floors of the machine allow, in the unit of the row. `not run`: the peer was not installed. `floors differ`: the machine',
  'was so much faster or slower than for the rest of the table that times do not compare with those of other rows; ratios do.',
].join(' ')

function sectionOf(section: Section, title: string, cases: readonly Case[], results: AllResults): string[] {
  const chosen = cases.filter((one) => one.section === section).map(({ name }) => [name, results[name]] as const)
  if (chosen.length === 0) return []
  const different = floorsDiffer(chosen.flatMap(([, result]) => (result ? [result] : [])))
  const rows = chosen.flatMap(([name, result]) => rowsOf(name, result, different))
  const head = ['case', ...HEADINGS]
  return [`## ${title}`, [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')]
}

/** Beyond this factor from the median of a table, the floors of a case are those of another machine. */
const FLOORS_FACTOR = 1.25

/** Which of the results of one table were measured while the machine was far from its usual self. */
function floorsDiffer(results: readonly CaseResult[]): ReadonlySet<CaseResult> {
  const isFar = (floor: keyof CaseResult['floors']) => {
    const usual = median(results.map(({ floors }) => floors[floor]))
    return ({ floors }: CaseResult) => Math.abs(Math.log(floors[floor] / usual)) > Math.log(FLOORS_FACTOR)
  }
  return results.length === 0
    ? new Set()
    : new Set([...results.filter(isFar('gemm')), ...results.filter(isFar('bandwidth'))])
}

function rowsOf(name: string, result: CaseResult | undefined, different: ReadonlySet<CaseResult>): string[][] {
  if (!result) return [[`\`${name}\``, 'not run', ...HEADINGS.slice(1).map(() => '-')]]
  const marks = [...(result.load.idle ? [] : ['busy machine']), ...(different.has(result) ? ['floors differ'] : [])]
  const mark = marks.length === 0 ? '' : ` (${marks.join(', ')})`
  return result.rows.map((row) => [`\`${name}\`${mark}`, ...cells(row)])
}

/** Where and when each case was measured; cases that share all of it stand together. */
function machines(results: AllResults): string {
  const groups = new Map<string, string[]>()
  for (const [name, { date, machine, threads, load, floors, command, runs }] of Object.entries(results)) {
    const versions = Object.entries(machine.versions).map(([what, version]) => `${what} ${version}`)
    const text = [
      `${date.slice(0, 16).replace('T', ' ')} UTC, \`${command}\``,
      `${machine.cpu}, ${machine.cores} cores, ${digits(machine.memory / 2 ** 30)} GiB, ${machine.platform}; ${threads} threads`,
      versions.join(', '),
      `floors: ${digits(floors.gemm / 1e9)} GFLOP/s (512x896x4864 in float32), ${digits(floors.bandwidth / 1e9)} GB/s`,
      `load before: ${load.average.toFixed(2)}${load.idle ? '' : ' (not idle)'}`,
    ].join('\n  - ')
    groups.set(text, [...(groups.get(text) ?? []), `\`${name}\` (${runs === 1 ? '1 run' : `${runs} runs`})`])
  }
  return [...groups].map(([text, names]) => `- ${names.join(', ')}\n  - ${text}`).join('\n')
}
