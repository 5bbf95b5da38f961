import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { CheckpointError, InvalidInputError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { resolveModel } from './resolve.js'
import { classifySource, expandHome } from './source.js'

let cacheDir: string
beforeEach(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterEach(() => rm(cacheDir, { recursive: true, force: true }))

describe('sources', () => {
  it('tells folders from hub names', async () => {
    await mkdir(join(cacheDir, 'org/model'), { recursive: true })
    expect(await classifySource(join(cacheDir, 'org/model'))).toEqual({
      kind: 'folder',
      path: join(cacheDir, 'org/model'),
    })
    expect(await classifySource('no-such-org/Name-1.5_x')).toEqual({ kind: 'hub', name: 'no-such-org/Name-1.5_x' })
    expect(await classifySource('.')).toEqual({ kind: 'folder', path: process.cwd() })
    expect(expandHome('~/models')).toBe(join(homedir(), 'models'))
    expect(expandHome('~user')).toBe('~user')
    expect(await resolveModel(cacheDir)).toBe(cacheDir)
  })

  it.each(['./none', '../none/none', '~/no/such/folder', '/none', 'C:\\none', 'D:none', 'models\\none'])(
    'takes %j for a folder',
    async (source) => {
      const error: unknown = await classifySource(source).catch((caught: unknown) => caught)
      expect(error).toBeInstanceOf(CheckpointError)
      expect((error as Error).message).toMatch(/expected a model folder, got nothing of that name/)
    },
  )

  it.each([
    '',
    'name',
    'a/b/c',
    'org/na me',
    'org/-x',
    'org/a..b',
    'org/a--b',
    'org/name:tag',
    `org/${'x'.repeat(96)}`,
    'https://x.org/a',
  ])('refuses %j', (source) => expect(classifySource(source)).rejects.toThrow(InvalidInputError))

  it('refuses a file, a revision of a folder, and a revision that cannot be one', async () => {
    await writeFile(join(cacheDir, 'file'), '')
    await expect(classifySource(join(cacheDir, 'file'))).rejects.toThrow(/expected a model folder, got a file/)
    await expect(resolveModel(cacheDir, { revision: 'main' })).rejects.toThrow(
      /expected no revision for the local folder/,
    )
    for (const revision of ['', '../x', 'a..b', 'a b', '/main', 'x?y', '-x']) {
      await expect(resolveModel('org/tiny', { revision, cacheDir })).rejects.toThrow(InvalidInputError)
    }
  })
})
