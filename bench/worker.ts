import { createInterface } from 'node:readline'
import { caseNamed } from './cases/index.js'
import type { Side } from './lib/case.js'
import type { SideReply, SideRequest } from './lib/side-process.js'

// One side of a case, driven by lines on the standard input: see lib/side-process.ts. What it prints goes to the error output.
const [, , name = '', which = 'ours'] = process.argv
const reply = (line: SideReply) => process.stdout.write(`${JSON.stringify(line)}\n`)
console.log = console.error

const benchCase = caseNamed(name)
const openSide = which === 'peer' ? benchCase.peer : benchCase.ours
if (typeof openSide !== 'function') throw new Error(`${name} has no side "${which}" in TypeScript`)

let side: Side | undefined
for await (const line of createInterface({ input: process.stdin })) {
  try {
    const request = JSON.parse(line) as SideRequest
    if ('open' in request) {
      const { settings, threads } = request.open
      side = await openSide(settings, { threads })
      reply({ ready: {} })
    } else {
      reply({ sample: await side!.run() })
    }
  } catch (error) {
    reply({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
}
await side?.close?.()
