import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { packages, root, run } from './run.js'

const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
let work: string

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'selfplay-renderer-package-'))
  await run(process.execPath, [join(root, 'node_modules/nx/dist/bin/nx.js'), 'run-many', '-t', 'build'], root)
})
afterAll(() => rm(work, { recursive: true, force: true }))

async function pack(folder: string): Promise<string> {
  const output = await run(npm, ['pack', '--json', '--pack-destination', work], join(root, folder))
  const [{ filename }] = JSON.parse(output.slice(output.indexOf('[\n'))) as [{ filename: string }]
  return join(work, filename)
}

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
  const tarballs: string[] = []
  for (const folder of [...packages.map((name) => `packages/${name}`), 'examples/renderer-package'])
    tarballs.push(await pack(folder))
  const folder = join(work, 'empty')
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }), 'utf8')
  await writeFile(join(folder, 'main.mjs'), program, 'utf8')
  await run(npm, ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', ...tarballs], folder)
  expect(await run(process.execPath, ['main.mjs'], folder)).toContain('acme/smol trained for 1 update')
})
