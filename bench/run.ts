import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { writeFileAtomic } from '@selfplay/ort'
import { caseNamed, cases, floorsCase } from './cases/index.js'
import type { Case, Floors } from './lib/case.js'
import { currentLoad, machineInfo, type Load } from './lib/machine.js'
import { measure, NotRunError, type Outcome } from './lib/measure.js'
import { cells, digits, HEADINGS, report } from './lib/report.js'
import { readResults, writeResults, type AllResults, type CaseResult } from './lib/results.js'
import { medianValue } from './lib/statistics.js'

const HELP = `npm run bench -- [case ...] [options]

Measures the cases (default: all) and writes RESULTS.md and results.json; what other cases found earlier stays.

  --list           name the cases
  --quick          one run of everything as small as it goes, to see that it works; nothing is written
  --runs <n>       runs of each side (default: the case's own, mostly 7)
  --threads <n>    of both sides, where the case does not set them (default: 2)
  --output <dir>   where the results are kept (default: this folder)

SELFPLAY_PEER_PYTHON names the Python interpreter of the peers (README.md says what it needs); without it they are not run.
`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    list: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    runs: { type: 'string' },
    threads: { type: 'string', default: '2' },
    output: { type: 'string', default: fileURLToPath(new URL('.', import.meta.url)) },
  },
})

function count(name: string, text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 1) return value
  throw new RangeError(`--${name} must be a whole number >= 1, got "${text}"`)
}

/** What was typed, less where the results were to go. */
function command(): string {
  const flags = (['runs', 'threads'] as const).flatMap((name) => {
    const value = values[name]
    return value === undefined || (name === 'threads' && value === '2') ? [] : [`--${name} ${value}`]
  })
  const rest = [...positionals, ...flags]
  return rest.length === 0 ? 'npm run bench' : `npm run bench -- ${rest.join(' ')}`
}

const say = (text: string) => process.stderr.write(text)

function print(benchCase: Case, { rows }: Pick<Outcome, 'rows'>): void {
  for (const row of rows) {
    const [what, ...rest] = cells(row)
    const shown = rest.map((cell, i) => `${HEADINGS[i + 1]} ${cell}`).filter((cell) => !cell.endsWith(' -'))
    process.stdout.write(`${benchCase.name}: ${what}: ${shown.join(', ')}\n`)
  }
}

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(HELP)
  if (values.list) {
    for (const { name, title } of cases) process.stdout.write(`${name.padEnd(22)}${title}\n`)
    return
  }
  const chosen = positionals.length === 0 ? cases : positionals.map(caseNamed)
  const load = currentLoad()
  if (!load.idle)
    say(`warning: the load average is ${load.average.toFixed(2)}: this machine is not idle, and times will show it\n`)
  const bench = new Bench(load)
  for (const benchCase of [floorsCase, ...chosen.filter((one) => one !== floorsCase)]) await bench.measure(benchCase)
  if (!values.quick) await bench.write(resolve(values.output))
  if (bench.failures > 0) process.exitCode = 1
}

class Bench {
  readonly #load: Load
  readonly #date = new Date().toISOString()
  readonly #results: Record<string, CaseResult> = {}
  readonly #options = {
    threads: count('threads', values.threads),
    runs: values.runs === undefined ? undefined : count('runs', values.runs),
    quick: values.quick,
  }
  #floors: Floors | undefined
  failures = 0

  constructor(load: Load) {
    this.#load = load
  }

  async measure(benchCase: Case): Promise<void> {
    say(`${benchCase.name}: ${benchCase.title}\n`)
    try {
      const outcome = await measure(benchCase, this.#floors, {
        ...this.#options,
        onSample: (side, run, { seconds }) => say(`  ${side.padEnd(4)} run ${run}  ${digits(1000 * seconds)} ms\n`),
      })
      if (benchCase === floorsCase) {
        this.#floors = { gemm: medianValue(outcome.ours, 'gemm'), bandwidth: medianValue(outcome.ours, 'bandwidth') }
      }
      print(benchCase, outcome)
      this.#results[benchCase.name] = await this.#resultOf(outcome)
    } catch (error) {
      if (!(error instanceof NotRunError)) this.failures++
      say(`  ${error instanceof NotRunError ? 'not run' : 'FAILED'}: ${(error as Error).message}\n`)
      if (benchCase === floorsCase) throw error
    }
  }

  async #resultOf({ rows, runs, threads, ours, peer, versions }: Outcome): Promise<CaseResult> {
    const machine = await machineInfo()
    return {
      date: this.#date,
      command: command(),
      runs,
      threads,
      load: this.#load,
      machine: { ...machine, versions: { ...machine.versions, ...versions } },
      floors: this.#floors!,
      rows: rows.map((row) => ({ ...row })),
      ours: { ...ours, samples: [...ours.samples] } as CaseResult['ours'],
      peer: (peer ? { ...peer, samples: [...peer.samples] } : null) as CaseResult['peer'],
    }
  }

  async write(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true })
    const path = join(directory, 'results.json')
    const all: AllResults = { ...(await readResults(path)), ...this.#results }
    const known: AllResults = Object.fromEntries(
      cases.flatMap(({ name }) => (all[name] ? [[name, all[name]] as const] : [])),
    )
    await writeResults(path, known)
    await writeFileAtomic(join(directory, 'RESULTS.md'), await report(cases, known))
    say(`written: ${join(directory, 'RESULTS.md')}\n`)
  }
}

await main()
