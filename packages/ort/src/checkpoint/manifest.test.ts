import { appendFile, cp, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CheckpointError, InvalidInputError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { JsonValue } from './json.js'
import { newestComplete, openManifestedFolder, readManifest, writeManifestedFolder } from './manifest.js'

const KIND = { kind: 'test', formatVersion: 2 }

let parent: string
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterEach(() => rm(parent, { recursive: true, force: true }))

const save = (name: string, formatVersion = 2) =>
  writeManifestedFolder(
    join(parent, name),
    { kind: 'test', formatVersion },
    async (staging) => {
      await staging.write('a.bin', new Uint8Array(100).fill(7))
      await staging.write('sub/b.txt', name)
    },
    { about: { from: 'here' } },
  )

const edit = async (name: string, change: (manifest: Record<string, JsonValue>) => object) => {
  const path = join(parent, name, 'manifest.json')
  await writeFile(path, JSON.stringify(change(JSON.parse(await readFile(path, 'utf8')) as Record<string, JsonValue>)))
}

describe('a manifest', () => {
  it('names every file and what was said about the folder', async () => {
    await save('x')
    const manifest = await openManifestedFolder(join(parent, 'x'), KIND)
    expect(Object.keys(manifest.files)).toEqual(['a.bin', 'sub/b.txt'])
    expect(manifest).toMatchObject({ kind: 'test', formatVersion: 2, about: { from: 'here' } })
    expect(manifest.files['a.bin']!.size).toBe(100)
  })

  it.each<[string, (folder: string) => Promise<unknown>, RegExp]>([
    ['a missing file', (folder) => rm(join(folder, 'a.bin')), /a\.bin: expected a file of 100 bytes, got no such file/],
    [
      'a truncated file',
      (folder) => truncate(join(folder, 'a.bin'), 60),
      /a\.bin: expected the 100 bytes that were written, got 60 bytes\. .*delete manifest\.json if the change was meant/,
    ],
    [
      'a longer file',
      (folder) => appendFile(join(folder, 'sub/b.txt'), '!'),
      /b\.txt: expected the 1 bytes that were written, got 2 bytes/,
    ],
    [
      'a changed file',
      (folder) => writeFile(join(folder, 'sub/b.txt'), 'y'),
      /b\.txt: expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}/,
    ],
    [
      'no manifest',
      (folder) => rm(join(folder, 'manifest.json')),
      /expected a folder with a manifest\.json of the kind "test"/,
    ],
    [
      'half a manifest',
      (folder) => truncate(join(folder, 'manifest.json'), 90),
      /manifest\.json: expected a JSON object/,
    ],
    [
      'another program’s manifest',
      (folder) => writeFile(join(folder, 'manifest.json'), '{"name":"app"}'),
      /no such manifest\.json/,
    ],
    ['no folder', (folder) => rm(folder, { recursive: true }), /expected a folder with a manifest\.json/],
  ])('refuses %s', async (_, damage, message) => {
    await save('x')
    await damage(join(parent, 'x'))
    const error: unknown = await openManifestedFolder(join(parent, 'x'), KIND).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(CheckpointError)
    expect((error as Error).message).toMatch(message)
  })

  it('checks sizes alone when asked to', async () => {
    await save('x')
    await writeFile(join(parent, 'x/sub/b.txt'), 'y')
    await openManifestedFolder(join(parent, 'x'), KIND, { verify: 'sizes' })
    await truncate(join(parent, 'x/a.bin'), 99)
    await expect(openManifestedFolder(join(parent, 'x'), KIND, { verify: 'sizes' })).rejects.toThrow(/got 99 bytes/)
  })

  it.each<[string, object, RegExp]>([
    ['a newer format', { formatVersion: 3 }, /the format "test" up to version 2, got version 3.*newer selfplay/],
    ['a newer manifest', { manifestVersion: 2, layout: 'new' }, /a manifest up to version 1, got version 2/],
    ['another kind', { kind: 'other' }, /of the kind "test", got the kind "other"/],
    [
      'a hash that is none',
      { files: { 'a.bin': { size: 1, sha256: 'x' } } },
      /expected a manifest as selfplay writes it/,
    ],
    ['an unknown field', { extra: 1 }, /expected a manifest as selfplay writes it/],
    [
      'a path that reaches outside',
      { files: { '../a': { size: 1, sha256: '0'.repeat(64) } } },
      /inside its own folder/,
    ],
  ])('refuses %s', async (_, fields, message) => {
    await save('x')
    await edit('x', (manifest) => ({ ...manifest, ...fields }))
    await expect(readManifest(join(parent, 'x'), KIND)).rejects.toThrow(message)
  })

  it('reads older formats', async () => {
    await save('x', 1)
    expect((await openManifestedFolder(join(parent, 'x'), KIND)).formatVersion).toBe(1)
  })

  it('refuses to store what JSON would lose', () => {
    const write = (value: unknown) =>
      writeManifestedFolder(join(parent, 'x'), KIND, () => Promise.resolve(), {
        about: { list: [1, value as JsonValue] },
      })
    expect(() => write(NaN)).toThrow(/about\.list\[1\] is NaN, which JSON cannot hold/)
    expect(() => write(new Map())).toThrow(InvalidInputError)
    expect(() => write(undefined)).toThrow(/got undefined/)
  })
})

describe('check 49: the newest complete checkpoint', () => {
  it('goes by number, and says which were skipped and why', async () => {
    for (const name of ['step-9', 'step-10', 'step-000011', 'step-12', 'latest', 'notes-1-old']) await save(name)
    await truncate(join(parent, 'step-12/a.bin'), 50)
    await rm(join(parent, 'step-000011/manifest.json'))
    await writeFile(join(parent, 'step-99'), 'a file')
    await cp(join(parent, 'step-9'), join(parent, '.selfplay-tmp-1-13'), { recursive: true })
    const { newest, skipped } = await newestComplete(parent, KIND)
    expect(newest).toMatchObject({ number: 10, path: join(parent, 'step-10') })
    expect(skipped).toEqual([
      {
        path: join(parent, 'step-12'),
        reason: expect.stringMatching(/a\.bin: .* got 50 bytes/) as string,
      },
      { path: join(parent, 'step-000011'), reason: expect.stringMatching(/no such manifest\.json/) as string },
    ])
  })

  it('finds none in an empty or missing folder, and reports those that are all damaged', async () => {
    expect(await newestComplete(parent, KIND)).toEqual({ newest: undefined, skipped: [] })
    expect(await newestComplete(join(parent, 'none'), KIND)).toEqual({ newest: undefined, skipped: [] })
    await mkdir(join(parent, '3'))
    expect(await newestComplete(parent, KIND)).toMatchObject({
      newest: undefined,
      skipped: [{ path: join(parent, '3') }],
    })
  })

  it('does not fall back past a newer format', async () => {
    await save('1')
    await save('2', 3)
    await expect(newestComplete(parent, KIND)).rejects.toThrow(/up to version 2, got version 3/)
  })

  it('stops when aborted', async () => {
    await save('1')
    await expect(newestComplete(parent, KIND, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow(
      'enough',
    )
  })
})
