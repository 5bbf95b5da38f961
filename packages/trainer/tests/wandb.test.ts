import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { readFile, readdir } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { wandbTracker } from '../src/track/wandb.js'
import { temporaryFolder, toyTrainer } from './support/setup.js'

const KEY = 'abcdef0123456789secret'

interface Seen {
  path: string
  authorization: string | undefined
  body: {
    query?: string
    variables?: Record<string, unknown>
    files?: Record<string, { offset: number; content: string[] }>
    complete?: boolean
    exitcode?: number
  }
}

/** A stand-in for the service on the loopback interface. */
function standIn(answer?: (seen: Seen, count: number) => number | 'hang' | 'endless' | undefined) {
  const seen: Seen[] = []
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    request.on('end', () => {
      const one = {
        path: request.url!,
        authorization: request.headers.authorization,
        body: JSON.parse(text) as Seen['body'],
      }
      const status = answer?.(one, seen.length)
      seen.push(one)
      if (status === 'hang') return
      if (status === 'endless') {
        const chunk = Buffer.alloc(65536, ' ')
        const more = () => void response.write(chunk, (error) => (error ? undefined : setImmediate(more)))
        more()
        return
      }
      if (status !== undefined) {
        response.writeHead(status).end(`no, ${one.authorization}`)
        return
      }
      const project = { name: 'my-project', entity: { name: 'someone' } }
      const reply = one.body.query?.includes('viewer')
        ? { data: { viewer: { entity: 'someone' } } }
        : { data: { upsertBucket: { bucket: { project } } } }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply))
    })
  })
  return { server, seen }
}

const open: ReturnType<typeof createServer>[] = []
async function listen(answer?: Parameters<typeof standIn>[0]) {
  const { server, seen } = standIn(answer)
  open.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { seen, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

beforeEach(() => vi.stubEnv('WANDB_API_KEY', KEY))
afterEach(() => {
  vi.unstubAllEnvs()
  for (const server of open.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

const lines = (seen: Seen[]) =>
  seen
    .flatMap(({ body }) => body.files?.['wandb-history.jsonl']?.content ?? [])
    .map((line) => JSON.parse(line) as Record<string, number>)

describe('wandbTracker', () => {
  it('registers the run, sends every row once and in order, and closes it', async () => {
    const { seen, baseUrl } = await listen()
    const tracker = wandbTracker({ baseUrl, project: 'my-project', flushSeconds: 0.02 })
    const { trainer } = toyTrainer({ trackers: [tracker], evalDataset: [{ prompt: 'a' }], config: { evalInterval: 2 } })
    await trainer.train()
    expect(seen[0]!.body.query).toContain('viewer')
    expect(seen[1]!.body.variables).toMatchObject({ project: 'my-project', entity: 'someone', jobType: 'train' })
    expect(JSON.parse(String(seen[1]!.body.variables!['config']))).toMatchObject({ numGenerations: { value: 4 } })
    expect(seen[2]!.path).toMatch(/^\/files\/someone\/my-project\/[0-9a-f]{12}\/file_stream$/)
    const rows = lines(seen)
    expect(rows.map((row) => row['_step'])).toEqual([0, 1, 2, 3, 4, 5, 6])
    expect(rows[2]).toHaveProperty(['eval/turn_1/reward_mean']) // an update and its evaluation are one line
    expect(rows[2]).toHaveProperty(['turn_1/reward_mean'])
    let offset = 0
    for (const { body } of seen) {
      const history = body.files?.['wandb-history.jsonl']
      if (!history) continue
      expect(history.offset).toBe(offset)
      offset += history.content.length
    }
    expect(seen.at(-1)!.body).toEqual({ complete: true, exitcode: 0 })
    for (const { authorization } of seen) {
      expect(authorization).toBe(`Basic ${Buffer.from(`api:${KEY}`).toString('base64')}`)
    }
  })

  it('sends the rows of a trainer that was left and goes on to a run of their own', async () => {
    const { seen, baseUrl } = await listen()
    const tracker = wandbTracker({ baseUrl, entity: 'someone', flushSeconds: 0.02 })
    const { trainer } = toyTrainer({ trackers: [tracker] })
    for await (const { step } of trainer.updates()) if (step === 2) break
    await trainer.train()
    const runs = [...new Set(seen.map(({ path }) => path).filter((path) => path.endsWith('file_stream')))]
    expect(runs).toHaveLength(2)
    const parts = runs.map((run) => seen.filter(({ path }) => path === run))
    expect(parts.map((part) => lines(part).map((row) => row['_step']))).toEqual([
      [1, 2],
      [3, 4, 5, 6],
    ])
    expect(parts.map((part) => part.at(-1)!.body)).toEqual([
      { complete: true, exitcode: 1 },
      { complete: true, exitcode: 0 },
    ])
    const named = seen.map(({ body }) => body.variables?.['displayName']).filter((name) => name !== undefined)
    expect(named).toEqual(['magrpo', 'magrpo (from 2)'])
  })

  it('repeats what failed, without gaps or doubles', async () => {
    const { seen, baseUrl } = await listen(({ body }, count) => (body.files && count < 4 ? 503 : undefined))
    const tracker = wandbTracker({
      baseUrl,
      entity: 'someone',
      flushSeconds: 0.01,
      retrySeconds: 0.05,
      finishSeconds: 10,
    })
    const { trainer } = toyTrainer({ trackers: [tracker] })
    await trainer.train()
    const taken = seen.slice(4)
    expect(lines(taken).map((row) => row['_step'])).toEqual([1, 2, 3, 4, 5, 6])
    expect(seen.at(-1)!.body.complete).toBe(true)
  })

  it('neither stops nor holds up a run when the service refuses or hangs', async () => {
    for (const answer of [401, 'hang'] as const) {
      const { baseUrl } = await listen(() => answer)
      const troubles: string[] = []
      const tracker = wandbTracker({
        baseUrl,
        flushSeconds: 0.01,
        finishSeconds: 0.3,
        onTrouble: (m) => troubles.push(m),
      })
      const { trainer } = toyTrainer({ trackers: [tracker] })
      const start = performance.now()
      expect((await trainer.train()).steps).toBe(6)
      expect(performance.now() - start).toBeLessThan(3000)
      expect(troubles).toHaveLength(1)
      expect(troubles[0]).toMatch(answer === 401 ? /refused.*401/ : /in time/)
    }
  })

  it('waits five seconds at most for a service that hangs, one once the run is aborted', async () => {
    const { baseUrl } = await listen(() => 'hang')
    const waited = async (outcome: 'finished' | 'aborted', abortAfter?: number) => {
      const tracker = wandbTracker({ baseUrl })
      const controller = new AbortController()
      tracker.start({ name: 'run', config: {}, resumedAt: 0 })
      const start = performance.now()
      if (abortAfter !== undefined) setTimeout(() => controller.abort(), abortAfter)
      await tracker.finish(outcome, { signal: controller.signal })
      return (performance.now() - start) / 1000
    }
    const [whole, aborted, meanwhile] = await Promise.all([
      waited('finished'),
      waited('aborted'),
      waited('finished', 500),
    ])
    expect(whole).toBeGreaterThan(4.5)
    expect(whole).toBeLessThan(7)
    for (const seconds of [aborted, meanwhile]) {
      expect(seconds).toBeGreaterThan(0.9)
      expect(seconds).toBeLessThan(3)
    }
  })

  it('reads no more of an answer than the service would give', async () => {
    const { baseUrl } = await listen(() => 'endless')
    const troubles: string[] = []
    const tracker = wandbTracker({ baseUrl, finishSeconds: 1, retrySeconds: 10, onTrouble: (m) => troubles.push(m) })
    tracker.start({ name: 'run', config: {}, resumedAt: 0 })
    const start = performance.now()
    await vi.waitFor(() => expect(troubles).toHaveLength(1), { timeout: 3000 })
    await tracker.finish('finished')
    expect(performance.now() - start).toBeLessThan(5000)
    expect(troubles[0]).toMatch(/does not answer, trying again: it answered more than 1048576 bytes/)
  })

  it('gives an aborted trainer back after a second though rows are waiting', async () => {
    const { baseUrl } = await listen(() => 'hang')
    const { trainer } = toyTrainer({ trackers: [wandbTracker({ baseUrl })] })
    const controller = new AbortController()
    let aborted = 0
    const run = async () => {
      for await (const { step } of trainer.updates({ signal: controller.signal })) {
        if (step !== 3) continue
        aborted = performance.now()
        controller.abort(new Error('Ctrl-C'))
      }
    }
    await expect(run()).rejects.toThrow('Ctrl-C')
    expect(performance.now() - aborted).toBeLessThan(2500)
  })

  it('keeps the key out of the run folder and of messages', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const { baseUrl } = await listen(() => 403)
    const troubles: string[] = []
    const tracker = wandbTracker({ baseUrl, flushSeconds: 0.01, onTrouble: (message) => troubles.push(message) })
    const { trainer } = toyTrainer({ trackers: [tracker], run: folder })
    await trainer.train()
    const files = await readdir(folder, { recursive: true, withFileTypes: true })
    const texts = await Promise.all(
      files.filter((file) => file.isFile()).map((file) => readFile(join(file.parentPath, file.name), 'utf8')),
    )
    const encoded = Buffer.from(`api:${KEY}`).toString('base64')
    for (const text of [...texts, ...troubles]) {
      expect(text).not.toContain(KEY)
      expect(text).not.toContain(encoded)
    }
    expect(troubles).toHaveLength(1)
  })

  it.each(['http://user:hunter2@127.0.0.1:9', 'not an address', 'ftp://127.0.0.1', ''])(
    'refuses the address %j without quoting it, which may hold a password',
    (address) => {
      const make = () => wandbTracker({ baseUrl: address })
      expect(make).toThrow(/WANDB_BASE_URL: expected an http\(s\) address .* without a user name or password/)
      expect(make).not.toThrow(/hunter2/)
    },
  )

  it('says why it cannot be reached', async () => {
    const messages: string[] = []
    const onTrouble = (message: string) => messages.push(message)
    const tracker = wandbTracker({ baseUrl: 'http://127.0.0.1:1', finishSeconds: 0.3, onTrouble })
    tracker.start({ name: 'run', config: {}, resumedAt: 0 })
    await tracker.finish('finished')
    expect(messages[0]).toMatch(/fetch failed \((ECONNREFUSED|bad port)\)/)
  })

  it('says what to do without a key', () => {
    vi.stubEnv('WANDB_API_KEY', '')
    expect(() => wandbTracker()).toThrow(/WANDB_API_KEY is not set/)
  })
})
