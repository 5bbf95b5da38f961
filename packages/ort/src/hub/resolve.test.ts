import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import * as nodeFs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { CheckpointError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openModelFolder } from '../checkpoint/folder.js'
import { HubError, MissingPackageError } from './errors.js'
import { resolveModel, type ResolveModelOptions } from './resolve.js'
import { COMMIT, StandIn } from './testing/stand-in.js'

const TOKEN = 'hf_topsecrettopsecret'
const fixture = (name: string) => readFile(join(import.meta.dirname, '../../../../fixtures/models/qwen2', name))

let hub: StandIn
let cacheDir: string
const output: string[] = []

beforeEach(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), 'selfplay-'))
  hub = new StandIn()
  hub.server.listen(0, '127.0.0.1')
  await once(hub.server, 'listening')
  for (const name of ['config.json', 'generation_config.json']) hub.files.set(name, { bytes: await fixture(name) })
  hub.files.set('model.safetensors', { bytes: await fixture('model.safetensors'), lfs: true })
  hub.files.set('tokenizer.json', { bytes: Buffer.from('{"ä": 1}') })
  for (const name of ['pytorch_model.bin', 'modeling_evil.py', 'README.md', 'onnx/model.safetensors']) {
    hub.files.set(name, { bytes: Buffer.from(name) })
  }
  output.length = 0
  for (const method of ['log', 'info', 'debug', 'warn', 'error'] as const) {
    vi.spyOn(console, method).mockImplementation((...words: unknown[]) => void output.push(words.join(' ')))
  }
})
afterEach(async () => {
  vi.restoreAllMocks()
  hub.server.closeAllConnections()
  hub.server.close()
  await rm(cacheDir, { recursive: true, force: true })
})

const resolve = (options: ResolveModelOptions = {}, env: Record<string, string> = {}) =>
  resolveModel('org/tiny', { cacheDir, env: { HF_ENDPOINT: hub.url, ...env }, ...options })

/** What failed, checked to be typed, silent, without the token, and without anything left in the cache. */
async function failure(promise: Promise<unknown>): Promise<Error> {
  const error: unknown = await promise.catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(Error)
  expect(`${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)} ${output.join()}`).not.toContain(
    'topsecret',
  )
  const left = (await readdir(cacheDir, { recursive: true })).filter((path) => path !== 'org--tiny')
  expect(left).toEqual([])
  return error as Error
}

describe('fetching a model', () => {
  it('brings the allowed files, in place and whole, and only once', async () => {
    const progress: string[] = []
    const folder = await resolve({
      onProgress: ({ file, received, total }) => progress.push(`${file} ${received}/${total}`),
    })
    expect(folder).toBe(join(cacheDir, 'org--tiny', COMMIT))
    const expected = ['config.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json']
    expect((await readdir(folder)).sort()).toEqual([...expected, 'manifest.json'].sort())
    expect(hub.fetched.sort()).toEqual(expected)
    for (const name of expected)
      expect(await readFile(join(folder, name))).toEqual(Buffer.from(hub.files.get(name)!.bytes))
    const size = hub.files.get('model.safetensors')!.bytes.length
    expect(progress).toContain(`model.safetensors ${size}/${size}`)
    expect((await openModelFolder(folder)).config.model_type).toBe('qwen2')
    expect(output).toEqual([])

    hub.requests.length = 0
    expect(await resolve()).toBe(folder)
    expect(hub.requests.map(({ path }) => path)).toEqual(['/api/models/org/tiny/revision/main'])
  })

  it('fetches the shards of the index and no other weights', async () => {
    const bytes = hub.files.get('model.safetensors')!.bytes
    hub.files.delete('model.safetensors')
    const { tensors } = await openModelFolder(join(import.meta.dirname, '../../../../fixtures/models/qwen2'))
    const weightMap = Object.fromEntries([...tensors.keys()].map((name) => [name, 'model-00001-of-00001.safetensors']))
    hub.files.set('model-00001-of-00001.safetensors', { bytes, lfs: true })
    hub.files.set('consolidated.safetensors', { bytes, lfs: true })
    hub.files.set('model.safetensors.index.json', { bytes: Buffer.from(JSON.stringify({ weight_map: weightMap })) })
    const model = await openModelFolder(await resolve())
    expect(model.tensors.size).toBe(tensors.size)
    expect(hub.fetched).toContain('model-00001-of-00001.safetensors')
    expect(hub.fetched).not.toContain('consolidated.safetensors')
  })

  it('goes by branch, tag or commit, and needs no network for a commit or offline', async () => {
    const folder = await resolve({ revision: 'feature/x' })
    expect(await resolve({ revision: 'v1' })).toBe(folder)
    hub.requests.length = 0
    expect(await resolve({ revision: COMMIT })).toBe(folder)
    expect(await resolve({ revision: 'feature/x' }, { HF_HUB_OFFLINE: '1' })).toBe(folder)
    await expect(resolve({ revision: 'v2' }, { HF_HUB_OFFLINE: '1' })).rejects.toThrow(
      /its revision "v2" in the cache .*HF_HUB_OFFLINE/,
    )
    expect(hub.requests).toEqual([])
  })

  it('keeps models where SELFPLAY_CACHE says, unless told otherwise', async () => {
    const env = { HF_ENDPOINT: hub.url, SELFPLAY_CACHE: join(cacheDir, 'elsewhere') }
    expect(await resolveModel('org/tiny', { env })).toBe(join(cacheDir, 'elsewhere', 'org--tiny', COMMIT))
    expect(await resolveModel('org/tiny', { env, cacheDir })).toBe(join(cacheDir, 'org--tiny', COMMIT))
  })

  it('fetches again what was damaged in the cache', async () => {
    const folder = await resolve()
    await writeFile(join(folder, 'model.safetensors'), 'cut')
    hub.requests.length = 0
    expect(await resolve({ revision: COMMIT })).toBe(folder)
    expect((await openModelFolder(folder)).config.model_type).toBe('qwen2')
    expect(hub.fetched).toContain('model.safetensors')
  })

  it('serves two callers at once', async () => {
    const [a, b] = await Promise.all([resolve(), resolve()])
    expect(a).toBe(b)
    expect((await openModelFolder(a!)).tensors.size).toBeGreaterThan(0)
    expect((await readdir(join(cacheDir, 'org--tiny'))).sort()).toEqual([COMMIT, 'refs'])
  })
})

describe('the token', () => {
  it('goes to the hub and nowhere else', async () => {
    const elsewhere = new StandIn()
    elsewhere.server.listen(0, '127.0.0.1')
    await once(elsewhere.server, 'listening')
    elsewhere.files.set('model.safetensors', hub.files.get('model.safetensors')!)
    hub.intercept = (path, response) => {
      if (!path.endsWith('/model.safetensors')) return false
      response.writeHead(302, { location: `${elsewhere.url}${path}` }).end()
      return true
    }
    await openModelFolder(await resolve({}, { HF_TOKEN: ` ${TOKEN}\n` }))
    elsewhere.server.close()
    expect(new Set(hub.requests.map(({ token }) => token))).toEqual(new Set([`Bearer ${TOKEN}`]))
    expect(elsewhere.requests.length).toBeGreaterThan(0)
    expect(new Set(elsewhere.requests.map(({ token }) => token))).toEqual(new Set([undefined]))
    expect(output.join()).not.toContain('topsecret')
  })

  it('need not look like one of huggingface.co', async () => {
    await resolve({}, { HF_TOKEN: 'mirror-token' })
    expect(hub.requests[0]!.token).toBe('Bearer mirror-token')
  })

  it('stays out of errors, even when it is no legal header or the hub echoes it', async () => {
    expect(await failure(resolve({}, { HF_TOKEN: `${TOKEN}\u0000x` }))).toBeInstanceOf(HubError)
    hub.intercept = (_, response, request) => {
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: `bad ${request.headers.authorization}` }))
      return true
    }
    expect((await failure(resolve({}, { HF_TOKEN: TOKEN }))).message).toMatch(/the hub could not answer \(status 400\)/)
  })
})

describe('refusals', () => {
  it.each<[number, RegExp]>([
    [
      401,
      /org\/tiny: cannot get its revision "main" from 127\.0\.0\.1:\d+: .*private or gated: set HF_TOKEN.*\(status 401\)/,
    ],
    [403, /access is denied: set HF_TOKEN/],
    [404, /it does not exist: check the name and the revision/],
    [429, /too many requests/],
    [503, /the hub could not answer \(status 503\)/],
  ])('explains status %i', async (status, message) => {
    hub.intercept = (_, response) => {
      response.writeHead(status).end('no')
      return true
    }
    expect((await failure(resolve({}, { HF_TOKEN: TOKEN }))).message).toMatch(message)
  })

  it('explains that nothing answers', async () => {
    const gone = hub.url
    hub.server.close()
    const call = resolveModel('org/tiny', { cacheDir, env: { HF_ENDPOINT: gone } })
    expect((await failure(call)).message).toMatch(/no connection \(ECONNREFUSED\); check the network and HF_ENDPOINT/)
  })

  it.each(['ftp://x', 'https://user:topsecret@x.org', 'not an address'])(
    'refuses the endpoint %j',
    async (endpoint) => {
      expect((await failure(resolve({}, { HF_ENDPOINT: endpoint }))).message).toMatch(/^HF_ENDPOINT: expected/)
    },
  )

  it('names the package when it is not installed', async () => {
    const importHub = () =>
      Promise.reject(Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' }))
    const error = await failure(resolve({ importHub }))
    expect(error).toBeInstanceOf(MissingPackageError)
    expect(error.message).toContain('npm i @huggingface/hub')
  })

  it.each<[string, () => void, RegExp]>([
    ['no config', () => hub.files.delete('config.json'), /expected a repository with config\.json, got none/],
    [
      'pickled weights only',
      () => hub.files.delete('model.safetensors'),
      /model\.safetensors, got none: its weights have other formats, which are never/,
    ],
    [
      'no hash in the list',
      () => (hub.relist = (list) => list.map((entry) => ({ ...entry, oid: undefined }))),
      /expected a size and a hash for config\.json/,
    ],
    [
      'a negative size',
      () => (hub.relist = (list) => list.map((entry) => ({ ...entry, size: -1 }))),
      /expected a size and a hash/,
    ],
    [
      'a list that is none',
      () => (hub.relist = () => ({ a: 1 })),
      /cannot get its list of files .*the answer made no sense/,
    ],
    ['a list of nulls', () => (hub.relist = () => [null]), /expected a list of at most 100000 files/],
    [
      'an index that reaches outside',
      () => {
        hub.files.delete('model.safetensors')
        hub.files.set('model.safetensors.index.json', {
          bytes: Buffer.from('{"weight_map": {"a": "../x.safetensors"}}'),
        })
      },
      /index\.json: expected file names inside its own folder, got "\.\.\/x\.safetensors"/,
    ],
    [
      'an index that names what is not there',
      () => {
        hub.files.delete('model.safetensors')
        hub.files.set('model.safetensors.index.json', { bytes: Buffer.from('{"weight_map": {"a": "x.safetensors"}}') })
      },
      /expected the shards of its index among its files, got no "x\.safetensors"/,
    ],
  ])('refuses a repository with %s', async (_, arrange, message) => {
    arrange()
    expect((await failure(resolve())).message).toMatch(message)
  })

  it('refuses a commit that is none', async () => {
    hub.intercept = (path, response) => {
      if (!path.includes('/revision/')) return false
      response.setHeader('content-type', 'application/json').end('{"sha": "../../evil"}')
      return true
    }
    expect((await failure(resolve())).message).toMatch(/expected the hub to name a commit of 40 hex digits/)
  })
})

describe('damaged downloads never count as present', () => {
  const send = (bytes: Uint8Array, { destroy = false, length = bytes.length } = {}) => {
    hub.intercept = (path, response, request) => {
      if (!path.endsWith('/model.safetensors') || request.headers.range) return false
      response.setHeader('content-length', length)
      response.write(bytes)
      if (destroy) setTimeout(() => response.destroy(), 20)
      else response.end()
      return true
    }
  }
  const weights = () => Buffer.from(hub.files.get('model.safetensors')!.bytes)

  it.each<[string, () => void, RegExp]>([
    [
      'cut short by the hub',
      () => send(weights().subarray(0, 1000)),
      /model\.safetensors: expected \d+ bytes as the hub lists it, got 1000/,
    ],
    [
      'cut off',
      () => send(weights().subarray(0, 1000), { destroy: true, length: weights().length }),
      /the connection broke|no connection/,
    ],
    [
      'too long',
      () => send(Buffer.concat([weights(), Buffer.alloc(1)])),
      /expected \d+ bytes as the hub lists it, got more/,
    ],
    ['changed', () => send(weights().fill(1, 500, 501)), /expected SHA-256 [0-9a-f]{64} as the hub lists it/],
    [
      'changed, in a small file',
      () =>
        (hub.relist = (list) =>
          list.map((entry) => (entry.path === 'config.json' ? { ...entry, oid: '0'.repeat(40) } : entry))),
      /config\.json: expected Git hash 0{40} as the hub lists it, got [0-9a-f]{40}/,
    ],
  ])('%s', async (_, arrange, message) => {
    arrange()
    const error = await failure(resolve())
    expect(error).toBeInstanceOf(HubError)
    expect(error.message).toMatch(message)
    hub.intercept = () => false
    hub.relist = (list) => list
    await openModelFolder(await resolve()) // a second try starts over
  })

  it('gives up when the hub falls silent', async () => {
    hub.intercept = (path, response, request) => {
      if (path.endsWith('/model.safetensors') && !request.headers.range) return response.write('x') || true
      return false
    }
    expect((await failure(resolve({ idleTimeoutMs: 200 }))).message).toMatch(
      /cannot get its model\.safetensors .*no answer within 0\.2 s/,
    )
    hub.intercept = () => true
    expect((await failure(resolve({ idleTimeoutMs: 200 }))).message).toMatch(
      /cannot get its revision "main" .*no answer within 0\.2 s/,
    )
  })

  it('stops when aborted, and leaves nothing', async () => {
    const controller = new AbortController()
    hub.intercept = (path, response, request) => {
      if (!path.endsWith('/model.safetensors') || request.headers.range) return false
      response.write(Buffer.alloc(100))
      setTimeout(() => controller.abort(new Error('enough')), 50)
      return true
    }
    expect((await failure(resolve({ signal: controller.signal }))).message).toBe('enough')
    expect((await failure(resolve({ signal: AbortSignal.abort(new Error('at once')) }))).message).toBe('at once')
  })

  it('reports a full disk', async () => {
    const full = Object.assign(new Error('no space'), { code: 'ENOSPC', errno: -28, syscall: 'write' })
    const fs = {
      ...nodeFs,
      readdir: (path: string) => nodeFs.readdir(path),
      open: async (path: string, flags: 'wx' | 'r') => {
        const file = await nodeFs.open(path, flags)
        return { sync: () => file.sync(), close: () => file.close(), write: () => Promise.reject(full) }
      },
    }
    const error = await failure(resolve({ fs }))
    expect(error).toBeInstanceOf(CheckpointError)
    expect(error.message).toMatch(/the disk is full/)
  })
})
