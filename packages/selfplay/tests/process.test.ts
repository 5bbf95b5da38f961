import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, readFile, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, ended, start, written } from './support/command.js'
import { writeTinyModel } from './support/tiny-model.js'

let model: string
let cwd: string

beforeAll(async () => {
  model = await writeTinyModel()
  cwd = await mkdtemp(join(tmpdir(), 'selfplay-process-'))
})
afterAll(async () => {
  for (const folder of [model, cwd]) await rm(folder, { recursive: true, force: true })
})

const train = (...more: string[]) => ['train', 'length-ratio', '--model', model, '--max-new-tokens', '12', ...more]
const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

describe('the command as a process', () => {
  it('finishes with 0 and a run folder', async () => {
    const { code, out, err } = await ended(start(cli, train('--max-steps', '2'), { cwd }))
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/update 2\/2/)
    const [name] = await readdir(join(cwd, 'runs'))
    for (const file of ['agent_0/model.safetensors', 'agent_1/tokenizer.json', 'metrics.jsonl', 'manifest.json'])
      expect(await exists(join(cwd, 'runs', name!, file))).toBe(true)
  })

  it.runIf(process.platform !== 'win32')('ends on SIGINT with a checkpoint that goes on (check 45)', async () => {
    const child = start(cli, train('--epochs', '1000', '--logging-steps', '1', '--output', 'stopped'), { cwd })
    const end = ended(child)
    await written(child, /update +5\//)
    const pressed = performance.now()
    child.kill('SIGINT')
    const { code, out, err } = await end
    expect(performance.now() - pressed).toBeLessThan(5000)
    expect([code, err]).toEqual([130, ''])
    const step = Number(/saved as it was after update (\d+)/.exec(out)?.[1])
    expect(step).toBeGreaterThanOrEqual(5)

    const again = start(cli, ['train', 'length-ratio', '--resume', 'stopped'], { cwd })
    const resumedEnd = ended(again)
    await written(again, new RegExp(`resumed after update ${step}`))
    await written(again, /reward \d/)
    again.kill('SIGTERM')
    expect((await resumedEnd).code).toBe(143)
    const rows = (await readFile(join(cwd, 'stopped', 'metrics.jsonl'), 'utf8')).trimEnd().split('\n')
    const steps = rows.map((row) => (JSON.parse(row) as { step: number }).step)
    expect(steps).toEqual(steps.map((_, index) => index + 1))
    expect(steps.length).toBeGreaterThan(step)
  })

  it.runIf(process.platform !== 'win32')('has its run folder for itself, until it is killed', async () => {
    const long = train('--epochs', '1000', '--logging-steps', '1', '--output', 'locked')
    const first = start(cli, long, { cwd })
    const end = ended(first)
    await written(first, /update +2\//)
    const resume = ['train', 'length-ratio', '--resume', 'locked']
    const [other, again, seen] = await Promise.all(
      [resume, long, ['inspect', 'locked']].map((args) => ended(start(cli, args, { cwd }))),
    )
    expect([other!.code, other!.out]).toEqual([1, ''])
    expect(other!.err).toMatch(
      new RegExp(`^error \\(run_locked\\)\n {2}\\S*locked is in use by process ${first.pid} on `),
    )
    expect([again!.code, again!.err]).toEqual([1, expect.stringContaining('already holds a run')])
    expect([seen!.code, seen!.err]).toEqual([0, ''])
    expect(await exists(join(cwd, 'locked', 'run.lock'))).toBe(true)
    first.kill('SIGKILL')
    await end

    const next = start(cli, resume, { cwd })
    const nextEnd = ended(next)
    await written(next, /reward \d/)
    next.kill('SIGINT')
    const { code, out } = await nextEnd
    expect(code).toBe(130)
    const note = `note the folder's lock was left over from process ${first.pid}, which had it since`
    expect(out.replaceAll(/\s+/g, ' ')).toContain(note)
    expect(await exists(join(cwd, 'locked', 'run.lock'))).toBe(false)
  })

  it('ends with 2 and 1 for bad usage and bad input', async () => {
    const [usage, input] = await Promise.all([
      ended(start(cli, ['train', 'length-ratio', '--generation', '4'], { cwd })),
      ended(start(cli, ['train', 'length-ratio', '--model', './nowhere'], { cwd })),
    ])
    expect([usage.code, usage.err]).toEqual([2, expect.stringContaining('did you mean --generations?')])
    expect([input.code, input.err]).toEqual([1, expect.stringContaining('expected a model folder, got nothing')])
  })
})

describe('W&B', () => {
  it('is logged to with --wandb; the key is from the environment and stays there', async () => {
    const seen: { url: string; body: string }[] = []
    const read = async (request: IncomingMessage) => {
      let body = ''
      for await (const chunk of request) body += String(chunk)
      return body
    }
    const server = createServer((request, response) => {
      void read(request).then((body) => {
        seen.push({ url: request.url ?? '', body })
        const bucket = { project: { name: 'games', entity: { name: 'team' } } }
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ data: { upsertBucket: { bucket } } }))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const key = 'very-secret-key'
    const env = {
      WANDB_API_KEY: key,
      WANDB_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    }
    const flags = ['--wandb', '--wandb-project', 'games', '--wandb-entity', 'team', '--output', 'logged']
    const { code, out, err } = await ended(
      start(cli, train('--max-steps', '2', '--logging-steps', '1', ...flags), { cwd, env }),
    )
    server.close()
    expect([code, err]).toEqual([0, ''])
    const upsert = JSON.parse(seen.find(({ url }) => url === '/graphql')!.body) as { variables: object }
    expect(upsert.variables).toMatchObject({ project: 'games', entity: 'team', displayName: 'logged' })
    const history = seen.filter(({ url }) => url.startsWith('/files/team/games/')).map(({ body }) => body)
    expect(history.join('\n')).toContain('turn_1/reward_mean')
    expect(history.at(-1)).toContain('"complete":true')
    const files = await readdir(join(cwd, 'logged'), { recursive: true, withFileTypes: true })
    const texts = files.filter((file) => /\.jsonl?$/.test(file.name))
    for (const file of texts) expect(await readFile(join(file.parentPath, file.name), 'utf8')).not.toContain(key)
    expect(out + seen.map(({ body }) => body).join('')).not.toContain(key)
  })
})
