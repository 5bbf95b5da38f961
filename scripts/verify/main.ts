import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { checkNamed, checks } from './checks.js'
import { table, type TableRow } from './table.js'

const HELP = `npm run verify -- [check ...] [options]

Trains from the start with each seed and holds what was learnt against its bounds. Exit code 1 when one does not hold.

  --list              name the checks
  --seeds <a,b,...>   default: 0,1,2
  --model <source>    folder or name of the model (default: bundled:tiny)
  --keep              keep the run folders, and say where they are

Checks: ${checks.map(({ name }) => name).join(', ')} (default: all)
`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    seeds: { type: 'string', default: '0,1,2' },
    model: { type: 'string', default: 'bundled:tiny' },
  },
})

function seedsOf(text: string): number[] {
  return text.split(',').map((part) => {
    const seed = Number(part)
    if (part.trim() !== '' && Number.isSafeInteger(seed)) return seed
    throw new RangeError(`--seeds must be whole numbers with commas between, got "${text}"`)
  })
}

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(HELP)
  if (values.list) {
    for (const { name, about } of checks) process.stdout.write(`${name}: ${about}\n`)
    return
  }
  const chosen = positionals.length === 0 ? checks : positionals.map(checkNamed)
  const seeds = seedsOf(values.seeds)
  const interrupted = new AbortController()
  process.once('SIGINT', () => interrupted.abort(new Error('interrupted')))
  const folder = await mkdtemp(join(tmpdir(), 'selfplay-verify-'))
  const rows: TableRow[] = []
  try {
    for (const { name, run } of chosen) {
      for (const seed of seeds) {
        const started = performance.now()
        const directory = join(folder, `${name}-${seed}`)
        const findings = await run({ seed, model: values.model, directory, signal: interrupted.signal })
        rows.push(...findings.map((finding) => ({ check: name, seed, ...finding })))
        const held = findings.filter(({ holds }) => holds).length
        const seconds = ((performance.now() - started) / 1000).toFixed(0)
        process.stderr.write(`${name}, seed ${seed}: ${held} of ${findings.length} bounds hold (${seconds} s)\n`)
        for (const { what, value, bound } of findings.filter(({ holds }) => !holds))
          process.stderr.write(`  FAILED: ${what}: ${value}, bound ${bound}\n`)
      }
    }
  } finally {
    if (values.keep) process.stderr.write(`runs: ${folder}\n`)
    else await rm(folder, { recursive: true, force: true })
  }
  process.stdout.write(`${table(rows)}\n`)
  const failed = rows.filter(({ holds }) => !holds).length
  process.stdout.write(`${rows.length - failed} of ${rows.length} bounds hold\n`)
  if (failed > 0) process.exitCode = 1
}

await main()
