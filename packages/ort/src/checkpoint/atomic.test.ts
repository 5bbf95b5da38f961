import * as nodeFs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CheckpointError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { recoverFolder, writeFileAtomic, writeFolderAtomic, type FileSystem, type WritableFile } from './atomic.js'

let parent: string
beforeEach(async () => {
  parent = await nodeFs.mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterEach(() => nodeFs.rm(parent, { recursive: true, force: true }))

const text = (name: string) => nodeFs.readFile(join(parent, name), 'utf8')
const listing = async () => (await nodeFs.readdir(parent, { recursive: true })).sort()

const systemError = (code: string, syscall: string) =>
  Object.assign(new Error(`${code}: injected, ${syscall}`), { code, errno: -1, syscall })

/** Counts every call that changes the disk and lets the n-th of them fail. */
function failingAt(n: number, code = 'ENOSPC'): { fs: FileSystem; calls: () => number } {
  let calls = 0
  const step = (syscall: string) => {
    if (++calls === n) throw systemError(code, syscall)
  }
  const wrap = (file: nodeFs.FileHandle): WritableFile => ({
    write: async (bytes, offset, length) => {
      step('write')
      return file.write(bytes, offset, length)
    },
    sync: async () => {
      step('fsync')
      return file.sync()
    },
    close: () => file.close(),
  })
  const fs: FileSystem = {
    open: async (path, flags) => {
      step('open')
      return wrap(await nodeFs.open(path, flags))
    },
    mkdir: async (path, options) => {
      step('mkdir')
      return nodeFs.mkdir(path, options)
    },
    rename: async (from, to) => {
      step('rename')
      return nodeFs.rename(from, to)
    },
    rm: nodeFs.rm,
    lstat: nodeFs.lstat,
    readdir: (path) => nodeFs.readdir(path),
  }
  return { fs, calls: () => calls }
}

/** As much of a manifest as tells that a folder is ours. */
const MANIFEST = JSON.stringify({ format: 'selfplay', files: { 'a.txt': {}, 'sub/b.txt': {} } })

const fill = (version: string) => async (staging: { write(name: string, contents: string): Promise<unknown> }) => {
  await staging.write('a.txt', `${version} a`)
  await staging.write('sub/b.txt', `${version} b`)
  await staging.write('manifest.json', MANIFEST)
}
const FILLED = ['target', 'target/a.txt', 'target/manifest.json', 'target/sub', 'target/sub/b.txt']

describe('files', () => {
  it('writes, replaces, and tells size and hash', async () => {
    const path = join(parent, 'deep/er/x.txt')
    expect(await writeFileAtomic(path, 'abc')).toEqual({
      size: 3,
      sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    })
    await writeFileAtomic(path, async (sink) => {
      await sink.write(Buffer.from('zwei '))
      await sink.write(Buffer.from('Stücke'))
    })
    expect(await text('deep/er/x.txt')).toBe('zwei Stücke')
    expect(await listing()).toEqual(['deep', 'deep/er', 'deep/er/x.txt'])
  })

  it('writes on when the system takes less than it was given', async () => {
    const { fs } = failingAt(Infinity)
    const slow: FileSystem = {
      ...fs,
      open: async (path, flags) => {
        const file = await fs.open(path, flags)
        return { ...file, write: (bytes, offset, length) => file.write(bytes, offset, Math.min(3, length)) }
      },
    }
    await writeFileAtomic(join(parent, 'x'), 'a long enough text', { fs: slow })
    expect(await text('x')).toBe('a long enough text')
  })

  it('names the reason that a read-only disk gives, which the recursive call hides', async () => {
    const { fs } = failingAt(Infinity)
    const mkdir: FileSystem['mkdir'] = async (path, options) => {
      const code = options?.recursive ? 'ENOENT' : 'EROFS'
      throw Object.assign(systemError(code, 'mkdir'), { path })
    }
    const failed = writeFileAtomic(join(parent, 'a', 'x'), 'new', { fs: { ...fs, mkdir } })
    await expect(failed).rejects.toThrow(/the file system is read-only; choose another folder \(EROFS\)/)
  })

  it('leaves the old file and no litter, whichever step fails', async () => {
    await writeFileAtomic(join(parent, 'x'), 'old')
    const { fs, calls } = failingAt(Infinity)
    await writeFileAtomic(join(parent, 'x'), 'old', { fs })
    const beforeRename = calls() - 2 // the folder is opened and synced after it
    for (let n = 1; n <= beforeRename; n++) {
      const error: unknown = await writeFileAtomic(join(parent, 'x'), 'new', { fs: failingAt(n).fs }).catch(
        (caught: unknown) => caught,
      )
      expect(error).toBeInstanceOf(CheckpointError)
      expect((error as Error).message).toMatch(
        /the disk is full; free some space .* \(ENOSPC\)\. What stood there before is unchanged/,
      )
      expect((error as CheckpointError).details).toMatchObject({ cause: 'ENOSPC', path: join(parent, 'x') })
      expect(await text('x')).toBe('old')
      expect(await listing()).toEqual(['x'])
    }
    expect(beforeRename).toBeGreaterThanOrEqual(5)
  })

  it('says when the file is in place but not confirmed', async () => {
    const { fs, calls } = failingAt(Infinity)
    await writeFileAtomic(join(parent, 'x'), 'old', { fs })
    const failed = writeFileAtomic(join(parent, 'x'), 'new', { fs: failingAt(calls(), 'EIO').fs })
    await expect(failed).rejects.toThrow(/is in place, but the disk did not confirm it \(EIO\)/)
    expect(await text('x')).toBe('new')
    expect(await listing()).toEqual(['x'])
  })

  it('passes on the error of the writer and the reason of the signal', async () => {
    const broken = writeFileAtomic(join(parent, 'x'), () => Promise.reject(new RangeError('mine')))
    await expect(broken).rejects.toThrow(RangeError)
    const controller = new AbortController()
    const aborted = writeFileAtomic(
      join(parent, 'x'),
      async (sink) => {
        await sink.write(Buffer.alloc(10))
        controller.abort(new Error('enough'))
        await sink.write(Buffer.alloc(10))
      },
      { signal: controller.signal },
    )
    await expect(aborted).rejects.toThrow('enough')
    expect(await listing()).toEqual([])
  })
})

describe('folders', () => {
  const target = () => join(parent, 'target')

  it('replaces a folder as a whole', async () => {
    await writeFolderAtomic(target(), async (staging) => {
      await staging.write('gone.txt', 'x')
      await staging.write('manifest.json', JSON.stringify({ format: 'selfplay', files: { 'gone.txt': {} } }))
    })
    await nodeFs.writeFile(join(target(), '.DS_Store'), '')
    await writeFolderAtomic(target(), fill('new'))
    expect(await listing()).toEqual(FILLED)
    expect(await text('target/sub/b.txt')).toBe('new b')
  })

  it('replaces an empty folder', async () => {
    await nodeFs.mkdir(target())
    await writeFolderAtomic(target(), fill('new'))
    expect(await listing()).toEqual(FILLED)
  })

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['a file', () => nodeFs.writeFile(target(), 'mine'), /got a file\. Choose another name/],
    [
      'a folder of others',
      async () => {
        await nodeFs.mkdir(join(target(), 'thesis'), { recursive: true })
        await nodeFs.writeFile(join(target(), 'z.txt'), 'mine')
      },
      /got a folder with "thesis"\. Choose another folder, or move that away/,
    ],
    [
      'a folder of ours with a file of others',
      async () => {
        await writeFolderAtomic(target(), fill('old'))
        await nodeFs.writeFile(join(target(), 'sub/notes.txt'), 'mine')
      },
      /got a folder with "sub\/notes\.txt"/,
    ],
    [
      'a folder with a folder in the place of a file of ours',
      async () => {
        await writeFolderAtomic(target(), fill('old'))
        await nodeFs.rm(join(target(), 'a.txt'))
        await nodeFs.mkdir(join(target(), 'a.txt'))
      },
      /got a folder with "a\.txt"/,
    ],
    [
      'a folder with another program’s manifest',
      async () => {
        await nodeFs.mkdir(target())
        await nodeFs.writeFile(join(target(), 'manifest.json'), '{"files": {"manifest.json": {}}}')
      },
      /got a folder with "manifest\.json"/,
    ],
    [
      'a link to a folder, even of ours',
      async () => {
        await writeFolderAtomic(join(parent, 'real'), fill('old'))
        await nodeFs.symlink(join(parent, 'real'), target(), 'junction')
      },
      /got a symbolic link\. Name the folder that it points to/,
    ],
  ])('refuses to replace %s', async (_, prepare, message) => {
    await prepare()
    const before = await listing()
    let filled = false
    const error: unknown = await writeFolderAtomic(target(), async () => {
      filled = true
    }).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(CheckpointError)
    expect((error as Error).message).toMatch(message)
    expect(filled).toBe(false)
    expect(await listing()).toEqual(before)
  })

  it('refuses to replace the working directory', async () => {
    await nodeFs.mkdir(target())
    const cwd = vi.spyOn(process, 'cwd').mockReturnValue(target())
    await expect(writeFolderAtomic('.', fill('new'))).rejects.toThrow(/got the working directory of this process/)
    cwd.mockRestore()
    expect(await listing()).toEqual(['target'])
  })

  it('looks again when all is written, at what came meanwhile', async () => {
    const written = writeFolderAtomic(target(), async (staging) => {
      await fill('new')(staging)
      await nodeFs.mkdir(target())
      await nodeFs.writeFile(join(target(), 'mine.txt'), 'mine')
    })
    await expect(written).rejects.toThrow(/got a folder with "mine\.txt"/)
    expect(await listing()).toEqual(['target', 'target/mine.txt'])
  })

  it('copies byte for byte', async () => {
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 31) & 255))
    await nodeFs.writeFile(join(parent, 'source'), bytes)
    await writeFolderAtomic(target(), (staging) => staging.copy('copy', join(parent, 'source')))
    expect(await nodeFs.readFile(join(target(), 'copy'))).toEqual(bytes)
    const missing = writeFolderAtomic(join(parent, 'other'), (staging) => staging.copy('x', join(parent, 'none')))
    await expect(missing).rejects.toThrow(/cannot copy .*none/)
  })

  it('leaves the old folder and no litter, whichever step fails', async () => {
    await writeFolderAtomic(target(), fill('old'))
    const { fs, calls } = failingAt(Infinity)
    await writeFolderAtomic(target(), fill('old'), { fs })
    const beforeLastRename = calls() - 2
    for (let n = 1; n <= beforeLastRename; n++) {
      const failed = writeFolderAtomic(target(), fill('new'), { fs: failingAt(n).fs })
      await expect(failed).rejects.toThrow(/disk is full.*What stood there before is unchanged/)
      expect(await text('target/a.txt')).toBe('old a')
      expect(await listing()).toEqual(FILLED)
    }
    expect(beforeLastRename).toBeGreaterThanOrEqual(10)
  })

  it('keeps the old one when the work is aborted or throws', async () => {
    await writeFolderAtomic(target(), fill('old'))
    const controller = new AbortController()
    const aborted = writeFolderAtomic(
      target(),
      async (staging) => {
        await fill('new')(staging)
        controller.abort(new Error('enough'))
      },
      { signal: controller.signal },
    )
    await expect(aborted).rejects.toThrow('enough')
    await expect(writeFolderAtomic(target(), () => Promise.reject(new RangeError('mine')))).rejects.toThrow(RangeError)
    expect(await text('target/a.txt')).toBe('old a')
    expect(await listing()).toEqual(FILLED)
  })

  it('keeps what stands there when asked to, also when it came just now', async () => {
    const keep = { existing: 'keep' } as const
    await writeFolderAtomic(target(), fill('first'), keep)
    await writeFolderAtomic(target(), fill('second'), keep)
    expect(await text('target/a.txt')).toBe('first a')
    await nodeFs.rm(target(), { recursive: true })
    const racing: FileSystem = {
      ...failingAt(Infinity).fs,
      rename: async (from, to) => {
        await nodeFs.cp(from, to, { recursive: true })
        return nodeFs.rename(from, to)
      },
    }
    await writeFolderAtomic(target(), fill('third'), { ...keep, fs: racing })
    expect(await listing()).toEqual(FILLED)
    expect(await text('target/a.txt')).toBe('third a')
  })

  it('waits for a program that holds the folder, but not for ever', async () => {
    const { fs } = failingAt(Infinity)
    const held = (times: number): FileSystem => ({
      ...fs,
      rename: (from, to) => (times-- > 0 ? Promise.reject(systemError('EBUSY', 'rename')) : nodeFs.rename(from, to)),
    })
    await writeFolderAtomic(target(), fill('old'), { fs: held(3) })
    expect(await text('target/a.txt')).toBe('old a')
    await expect(writeFolderAtomic(target(), fill('new'), { fs: held(10) })).rejects.toThrow(
      /another program holds it open \(EBUSY\)/,
    )
    expect(await text('target/a.txt')).toBe('old a')
  })

  it('puts the old folder back when the process died between the two renames', async () => {
    await writeFolderAtomic(target(), fill('old'))
    const { fs } = failingAt(Infinity)
    let renames = 0
    const dying: FileSystem = {
      ...fs,
      rename: (from, to) => (++renames > 1 ? Promise.reject(systemError('EIO', 'rename')) : nodeFs.rename(from, to)),
    }
    await expect(writeFolderAtomic(target(), fill('new'), { fs: dying })).rejects.toThrow(CheckpointError)
    expect(await nodeFs.readdir(parent)).toEqual([expect.stringMatching(/^\.selfplay-old-[0-9a-f]{16}$/)])
    await recoverFolder(target())
    expect(await text('target/a.txt')).toBe('old a')
    expect(await nodeFs.readdir(parent)).toEqual(['target'])
    await recoverFolder(target())
    expect(await text('target/a.txt')).toBe('old a')
  })

  it('removes what a writer that was killed long ago left, and nothing else', async () => {
    const longAgo = new Date(Date.now() - 7_200_000)
    const dead = 2 ** 22 + 7 // above the largest process id
    const names = [
      `.selfplay-tmp-${dead}-0`,
      `.selfplay-tmp-${process.pid}-999999`,
      `.selfplay-tmp-${dead}-1`,
      '.selfplay-tmp-x',
    ]
    for (const name of names) await nodeFs.mkdir(join(parent, name))
    for (const name of names.filter((_, at) => at !== 2)) await nodeFs.utimes(join(parent, name), longAgo, longAgo)
    await writeFolderAtomic(target(), fill('new'))
    expect((await nodeFs.readdir(parent)).sort()).toEqual([...names.slice(1), 'target'].sort())
  })
})
