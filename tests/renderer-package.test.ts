import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { build, install, pack, packages, run } from './run.js'

let work: string

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'selfplay-renderer-package-'))
  await build()
})
afterAll(() => rm(work, { recursive: true, force: true }))

const program = `
import 'acme-smol-renderer'
import { loadAgents, MAGRPOTrainer, user } from 'selfplay'

const agents = await loadAgents('bundled:tiny', 2, { renderer: 'acme/smol' })
const trainer = new MAGRPOTrainer({
  agents,
  trainDataset: [{ prompt: [user('Describe a city in the clouds.')] }],
  rewardFunc: ({ completions: [first, second] }) => first.map((text, k) => (text.length > second[k].length ? 1 : 0)),
  config: { numGenerations: 4, maxNewTokens: 8, numTrainEpochs: 1 },
})
let updates = 0
for await (const update of trainer.updates()) updates = update.step
console.log(agents[0].renderer.name + ' trained for ' + updates + ' update')
process.exit(0)
`

it('a contributed renderer, packed and installed in an empty folder, is used by name in a training run', async () => {
  const folders = [...packages.map((name) => `packages/${name}`), 'examples/renderer-package']
  const tarballs: string[] = []
  for (const folder of folders) tarballs.push(await pack(folder, work))
  const folder = await install(work, tarballs)
  await writeFile(join(folder, 'main.mjs'), program, 'utf8')
  expect(await run(process.execPath, ['main.mjs'], folder)).toContain('acme/smol trained for 1 update')
})
