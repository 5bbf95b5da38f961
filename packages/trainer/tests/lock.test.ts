import { spawn } from 'node:child_process'
import { cp, mkdir, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { RunLockedError } from '../src/errors.js'
import { lockRun } from '../src/run/lock.js'
import { SupervisedTrainer } from '../src/supervised/trainer.js'
import { toyRL } from './support/rl.js'
import { rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const lockIn = (folder: string) => join(folder, 'run.lock')
const isThere = (path: string) =>
  readFile(path).then(
    () => true,
    () => false,
  )

/** What a lock of this process says, with some of it changed. */
async function writeLock(folder: string, changes: object = {}): Promise<void> {
  await rm(lockIn(folder), { force: true })
  const lock = await lockRun(folder)
  const own = JSON.parse(await readFile(lockIn(folder), 'utf8')) as object
  await lock.release()
  await mkdir(folder, { recursive: true })
  await writeFile(lockIn(folder), JSON.stringify({ ...own, ...changes }), 'utf8')
}

const script = fileURLToPath(new URL('./support/locking-process.ts', import.meta.url))

/** Starts a process that takes a folder. */
async function lockingProcess(folder: string, end: 'exit' | 'throw' | 'wait') {
  const child = spawn(process.execPath, ['--conditions', '@selfplay/source', '--import', 'tsx', script, folder, end], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  await new Promise<void>((resolve) => child.stdout.on('data', () => resolve()))
  return { child, ended }
}

/** The number of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', ''])
  await new Promise((resolve) => child.on('close', resolve))
  return child.pid!
}

describe('lockRun', () => {
  it('gives a folder to one at a time, and says who has it', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const lock = await lockRun(folder)
    expect(lock).toMatchObject({ directory: folder, takenOver: null })
    const failure = await lockRun(folder).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(RunLockedError)
    expect(failure).toMatchObject({ code: 'run_locked', details: { directory: folder, pid: process.pid } })
    expect(String(failure)).toMatch(
      /run is in use by this very process since 20.*Z: wait for its end or stop it, or choose/,
    )
    await lock.release()
    await lock.release()
    await (await lockRun(folder)).release()
  })

  it('gives it to exactly one of many that ask at once, over a lock that was left over too', async () => {
    const folder = join(await temporaryFolder(), 'run')
    for (const isLeft of [false, true, true, true, true]) {
      if (isLeft) await writeLock(folder, { pid: await deadPid(), process: null })
      const asked = await Promise.allSettled(Array.from({ length: 20 }, () => lockRun(folder)))
      const given = asked.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
      expect(given).toHaveLength(1)
      expect(await readdir(folder)).toEqual(['run.lock'])
      await given[0]!.release()
    }
  })

  it('leaves no folder behind that it has made, and no file of another lock', async () => {
    const parent = await temporaryFolder()
    const lock = await lockRun(join(parent, 'a', 'b'))
    await lock.release()
    expect(await readdir(parent)).toEqual([])
    const kept = await lockRun(join(parent, 'kept'))
    await writeFile(join(parent, 'kept', 'file'), '')
    await rm(lockIn(join(parent, 'kept'))) // by hand
    const other = await lockRun(join(parent, 'kept'))
    await kept.release()
    expect((await readdir(join(parent, 'kept'))).sort()).toEqual(['file', 'run.lock'])
    await other.release()
    expect(await readdir(join(parent, 'kept'))).toEqual(['file'])
  })

  it('takes over the lock of a process that is gone, also when its number is in use again', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const pid = await deadPid()
    const left: object[] = [
      { pid, process: null },
      { pid, process: 'an earlier boot/1' },
    ]
    if (process.platform === 'linux') left.push({ process: 'an earlier boot/1' }, { pid: process.ppid })
    for (const changes of left) {
      await writeLock(folder, { since: '2026-11-01T10:00:00.000Z', ...changes })
      const lock = await lockRun(folder)
      expect(lock.takenOver).toMatch(/^process \d+, which had it since 2026-11-01T10:00:00\.000Z and is gone$/)
      await lock.release()
    }
  })

  it('does not judge processes of other machines and containers, and says what to do', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const pid = await deadPid()
    for (const changes of [{ host: 'elsewhere' }, { namespace: 'pid:[1]' }]) {
      await writeLock(folder, { pid, ...changes })
      await expect(lockRun(folder)).rejects.toThrow(
        /in use by process \d+ on .*cannot be seen from here: if it does not, remove .*run\.lock/,
      )
      expect(await isThere(lockIn(folder))).toBe(true)
    }
  })

  it('refuses a lock that says nothing, after waiting for its content', async () => {
    const folder = await temporaryFolder()
    await writeFile(lockIn(folder), '')
    await expect(lockRun(folder)).rejects.toThrow(/run\.lock does not say who uses the folder.*remove it/)
    const own = lockRun(folder)
    setTimeout(() => void rm(lockIn(folder)), 50)
    await (await own).release()
  })

  it('ends with what is to be deleted when what a removal left behind cannot be removed', async () => {
    const folder = join(await temporaryFolder(), 'run')
    await writeLock(folder, { pid: await deadPid(), process: null })
    const guard = `${lockIn(folder)}.removal`
    const old = new Date(Date.now() - 60_000)
    await writeFile(guard, '')
    await utimes(guard, old, old)
    await expect(lockRun(folder)).rejects.toThrow(/cannot be removed: .*delete .*run\.lock and .*run\.lock\.removal/)
    await rm(guard)
    await mkdir(guard)
    await writeFile(join(guard, 'file'), '')
    const later = new Date(Date.now() + 60_000) // of a machine with another clock
    await utimes(guard, later, later)
    await expect(lockRun(folder)).rejects.toBeInstanceOf(RunLockedError)
    await rm(guard, { recursive: true })
    await (await lockRun(folder)).release()
  })

  it('goes with a copy of the folder only as a lock that is left over', async () => {
    const parent = await temporaryFolder()
    const lock = await lockRun(join(parent, 'run'))
    await cp(join(parent, 'run'), join(parent, 'copy'), { recursive: true })
    const copy = await lockRun(join(parent, 'copy'))
    expect(copy.takenOver).toMatch(/and works in .*run: this is a copy of it/)
    await expect(lockRun(join(parent, 'run'))).rejects.toThrow(RunLockedError)
    await copy.release()
    await lock.release()
  })

  it.each(['exit', 'throw'] as const)('is given back by a process that ends by itself: %s', async (end) => {
    const folder = join(await temporaryFolder(), 'run')
    const { ended } = await lockingProcess(folder, end)
    expect(await ended).toBe(end === 'exit' ? 3 : 1)
    expect(await isThere(lockIn(folder))).toBe(false)
  })

  it('is held by another process until that is killed', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const { child, ended } = await lockingProcess(folder, 'wait')
    await expect(lockRun(folder)).rejects.toThrow(new RegExp(`in use by process ${child.pid} on `))
    child.kill('SIGKILL')
    await ended
    const lock = await lockRun(folder)
    expect(lock.takenOver).toContain(`process ${child.pid}, `)
    await lock.release()
  })
})

describe('trainers', () => {
  const makers: [
    string,
    (run: { directory: string; resume?: boolean }) => {
      updates(options?: { signal: AbortSignal }): AsyncGenerator<{ readonly step: number }>
    },
  ][] = [
    ['MAGRPOTrainer', (run) => toyTrainer({ run }).trainer],
    ['RLTrainer', (run) => toyRL({ run }).trainer],
    [
      'SupervisedTrainer',
      (run) =>
        new SupervisedTrainer({
          client: new ToyClient(),
          dataset: [
            [1, 2, 3],
            [1, 3, 2],
          ].map((ids) => ({ tokens: Int32Array.from(ids), weights: Float32Array.of(0, 1, 1) })),
          learningRate: 0.01,
          batchSize: 1,
          epochs: 3,
          run,
          onNotice: () => {},
        }),
    ],
  ]

  it.each(makers)('%s has its folder for itself while it trains, and no longer', async (_, make) => {
    const directory = join(await temporaryFolder(), 'run')
    const second = async (resume: boolean) => {
      for await (const { step } of make({ directory, resume }).updates()) return step
      return null
    }
    for await (const { step } of make({ directory }).updates()) {
      expect(await isThere(lockIn(directory))).toBe(true)
      for (const resume of [true, false]) await expect(second(resume)).rejects.toThrow(RunLockedError)
      if (step === 2) break
    }
    expect(await isThere(lockIn(directory))).toBe(false)
    await expect(second(false)).rejects.toThrow(/already holds a run/)
    expect(await isThere(lockIn(directory))).toBe(false)
    expect(await second(true)).toBe(3)
    const controller = new AbortController()
    const aborted = async () => {
      for await (const _update of make({ directory, resume: true }).updates({ signal: controller.signal }))
        controller.abort(new Error('Ctrl-C'))
    }
    await expect(aborted()).rejects.toThrow('Ctrl-C')
    expect(await isThere(lockIn(directory))).toBe(false)
  })

  it('give it back when they fail, and say whose lock they took over', async () => {
    const directory = join(await temporaryFolder(), 'run')
    const failing = toyTrainer({
      run: directory,
      rewardFunc: () => {
        throw new Error('no reward')
      },
    })
    await expect(failing.trainer.train()).rejects.toThrow('no reward')
    expect(await isThere(lockIn(directory))).toBe(false)
    const run = join(await temporaryFolder(), 'run')
    await writeLock(run, { pid: await deadPid(), process: null })
    const codes: string[] = []
    const { trainer } = toyTrainer({ run, trainDataset: rows(1), onNotice: ({ code }) => codes.push(code) })
    await trainer.train()
    expect(codes[0]).toBe('lock_taken_over')
  })

  it('go on within the process only if nobody else has the folder by then', async () => {
    const directory = join(await temporaryFolder(), 'run')
    const { trainer } = toyTrainer({ run: directory })
    for await (const { step } of trainer.updates()) if (step === 2) break
    const lock = await lockRun(directory)
    const before = await readdir(join(directory, 'checkpoints'))
    await expect(trainer.train()).rejects.toThrow(RunLockedError)
    expect(await readdir(join(directory, 'checkpoints'))).toEqual(before)
    await lock.release()
    expect((await trainer.train()).steps).toBe(6)
  })

  it('use the lock that they are given, and leave it', async () => {
    const directory = join(await temporaryFolder(), 'run')
    const lock = await lockRun(directory)
    await toyTrainer({ run: { directory, lock } }).trainer.train()
    expect(await isThere(lockIn(directory))).toBe(true)
    await expect(toyTrainer({ run: { directory: `${directory}-2`, lock } }).trainer.train()).rejects.toThrow(
      /run\.lock is one of/,
    )
    await lock.release()
    expect(() => toyTrainer({ run: { directory, lock: {} } as never })).toThrow(/run\.lock.*lock of lockRun/)
  })
})
