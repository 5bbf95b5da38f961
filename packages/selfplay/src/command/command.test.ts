import { EventEmitter } from 'node:events'
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SelfplayError } from '@selfplay/engine'
import { magrpoConfigSchema } from '@selfplay/trainer'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { lengthRatioTiny, lengthRatioTutorial } from '../recipes.js'
import { tasks } from '../tasks/index.js'
import { quoted } from '../terminal/quoted.js'
import type { Screen } from '../terminal/screen.js'
import { describeFailure, exitCodeOf, Interrupted, UsageError } from './failure.js'
import { interruptSignal } from './interrupt.js'
import { claimFolder, flagOf, planRun, settingsSchema, writeCommand, type TrainFlags } from './settings.js'
import { configOf } from './train.js'

const screen: Screen = { live: false, colours: false, width: 80, write: () => {} }

describe('failures', () => {
  it('are one block: code, message, what to do for more', () => {
    const error = new SelfplayError('checkpoint', 'expected a, got b:\ndo c')
    expect(describeFailure(error, screen, { verbose: false })).toBe(
      'error (checkpoint)\n  expected a, got b:\n  do c\n  Add --verbose for the place in the code.\n',
    )
    expect(describeFailure(new UsageError('no'), screen, { verbose: false })).toMatch(/--help/)
    expect(describeFailure(new TypeError('x is not a function'), screen, { verbose: false })).toMatch(
      /^unexpected error\n/,
    )
    expect(describeFailure('thrown text', screen, { verbose: false })).toMatch(/^unexpected error\n {2}thrown text\n/)
  })

  it('show stack and causes when asked', () => {
    const error = new Error('outer', { cause: new Error('inner') })
    expect(describeFailure(error, screen, { verbose: true })).toMatch(
      /Error: outer\n[\s\S]* at [\s\S]*caused by\n {2}Error: inner/,
    )
  })

  it('lose control sequences that a message quotes', () => {
    expect(describeFailure(new Error('got \u001b]0;x\u0007"a\u001b[2J"'), screen, { verbose: false })).toContain(
      '  got "a"\n',
    )
  })

  it('have exit codes', () => {
    const errors = [new UsageError('x'), new SelfplayError('a', 'b'), new Error('x'), 'x']
    expect(errors.map(exitCodeOf)).toEqual([2, 1, 1, 1])
    expect([new Interrupted('SIGINT'), new Interrupted('SIGTERM')].map(exitCodeOf)).toEqual([130, 143])
  })
})

describe('interrupts', () => {
  it('abort at the first signal, take a quick second for the same key press, and leave at once after that', () => {
    const source = new EventEmitter()
    const events: (string | number)[] = []
    let now = 1000
    const { signal, release } = interruptSignal({
      source,
      onFirst: () => events.push('first'),
      onSecond: (code) => events.push(code),
      now: () => now,
    })
    expect(signal.aborted).toBe(false)
    source.emit('SIGINT', 'SIGINT')
    expect(signal.reason).toBeInstanceOf(Interrupted)
    now += 400
    source.emit('SIGINT', 'SIGINT')
    expect(events).toEqual(['first'])
    now += 200
    source.emit('SIGTERM', 'SIGTERM')
    expect(events).toEqual(['first', 143])
    release()
    expect(source.listenerCount('SIGINT') + source.listenerCount('SIGTERM')).toBe(0)
  })
})

describe('tasks and recipes', () => {
  it('keep unseen prompts apart from those that are trained on', () => {
    for (const { prompts, unseenPrompts, recipes } of tasks) {
      const all = [...prompts, ...unseenPrompts]
      expect(new Set(all).size).toBe(all.length)
      for (const { unseenPrompts: used } of Object.values(recipes))
        expect(used).toBeLessThanOrEqual(unseenPrompts.length)
    }
  })

  it('has the settings of the tutorial for models of one’s own', () => {
    const { epochs, generations, maxNewTokens, learningRate, rewardScale } = lengthRatioTutorial
    expect({ epochs, generations, maxNewTokens, learningRate, rewardScale }).toEqual({
      epochs: 3,
      generations: 8,
      maxNewTokens: 128,
      learningRate: 5e-5,
      rewardScale: 100,
    })
  })
})

describe('settings', () => {
  let cwd: string
  const now = new Date('2026-11-29T15:30:00Z')
  beforeAll(async () => {
    cwd = await mkdtemp(join(tmpdir(), 'selfplay-settings-'))
    await mkdir(join(cwd, 'model'))
  })
  afterAll(() => rm(cwd, { recursive: true, force: true }))
  const plan = (flags: TrainFlags = {}) => planRun('length-ratio', flags, { cwd, now })

  it('take the recipe of the model, and flags on top', async () => {
    expect((await plan()).settings).toMatchObject({
      ...lengthRatioTiny,
      model: 'bundled:tiny',
      seed: 0,
      revision: null,
    })
    expect((await plan({ model: 'org/name', epochs: 7 })).settings).toMatchObject({
      ...lengthRatioTutorial,
      epochs: 7,
      model: 'org/name',
    })
    // A folder by its whole path, so that the run goes on from anywhere.
    expect((await plan({ model: 'model' })).settings.model).toBe(join(cwd, 'model'))
  })

  it('name the run folder by task and time only, and find a free one (check 59)', async () => {
    const first = await plan({ model: 'org/name:tag', revision: 'a/b' })
    expect(first.directory).toBe(join(cwd, 'runs', 'length-ratio-2026-11-29T153000Z'))
    await mkdir(first.directory, { recursive: true })
    expect((await plan()).directory).toBe(`${first.directory}-2`)
  })

  it('give two runs that start in the same second a folder each, and take none away that holds something', async () => {
    const both = await Promise.all([plan(), plan()])
    expect(both[0].directory).toBe(both[1].directory)
    const claimed = await Promise.all(both.map((one) => claimFolder(one, cwd, now)))
    const [a, b] = claimed.map((one) => one.plan.directory)
    expect(a).not.toBe(b)
    await writeFile(join(a!, 'x'), '')
    for (const { release } of claimed) await release()
    const isThere = (path: string) =>
      stat(path).then(
        () => true,
        () => false,
      )
    expect([await isThere(a!), await isThere(b!)]).toEqual([true, false])
  })

  it('lengthen a run that is resumed, and say which flags do when those that are given do not', async () => {
    const resume = async (output: string, saved: TrainFlags, more: TrainFlags) => {
      const first = await plan({ output, ...saved })
      await mkdir(first.directory, { recursive: true })
      await writeFile(join(first.directory, 'config.json'), '{"formatVersion":1}')
      await writeCommand(first)
      const { lengthened, settings } = await plan({ resume: output, ...more })
      return [lengthened, settings.epochs, settings.maxSteps]
    }
    // The bundled recipe: 90 epochs of 3 updates.
    expect(await resume('l-a', {}, { epochs: 91 })).toEqual([true, 91, null])
    expect(await resume('l-b', { maxSteps: 6 }, { maxSteps: 7 })).toEqual([true, 90, 7])
    expect(await resume('l-c', { maxSteps: 6, epochs: 2 }, { maxSteps: 12, epochs: 4 })).toEqual([true, 4, 12])
    expect(await resume('l-d', { maxSteps: 500 }, {})).toEqual([false, 90, 500])
    expect(await resume('l-e', { maxSteps: 500 }, { maxSteps: 500, epochs: 90 })).toEqual([false, 90, 500])
    const cases: [TrainFlags, TrainFlags, RegExp][] = [
      [{}, { maxSteps: 540 }, /has 270 updates \(--epochs 90\) and would not get longer by that: add --epochs 180$/],
      [{ maxSteps: 6 }, { epochs: 100 }, /has 6 updates \(--epochs 90, --max-steps 6\) .*: add --max-steps 300$/],
      [{ maxSteps: 500 }, { maxSteps: 600 }, /add --epochs 200$/],
      [{}, { epochs: 89 }, /or to a later end: --epochs is 89, the run has 90\./],
      [{}, { maxSteps: 270 }, /--max-steps is 270, the run has none\./],
      [
        { maxSteps: 6 },
        { maxSteps: 5, epochs: 100 },
        /--max-steps is 5, the run has 6; --epochs is 100, the run has 90/,
      ],
      [{}, { epochs: 180, generations: 4 }, /--generations is 4, the run has 8\./],
    ]
    for (const [index, [saved, more, message]] of cases.entries())
      await expect(resume(`l-${index}`, saved, more)).rejects.toThrow(message)
  })

  it('start a run over that was killed before it had begun', async () => {
    const first = await plan({ output: 'killed', epochs: 7 })
    await writeCommand(first)
    const again = await plan({ resume: 'killed' })
    expect(again).toMatchObject({ resume: false, directory: first.directory, settings: { epochs: 7 } })
    expect(again.remarks.join()).toMatch(/before it had begun: it starts over/)
  })

  it('refuse to resume a run that has lost its config.json, and a folder with what a run would overwrite', async () => {
    const { directory } = await plan({ output: 'lost' })
    await mkdir(join(directory, 'checkpoints', 'step-00000008'), { recursive: true })
    await expect(plan({ output: 'lost' })).rejects.toThrow(/checkpoints is in the way/)
    await writeCommand(await plan({ output: 'other' }).then((other) => ({ ...other, directory })))
    await expect(plan({ resume: 'lost' })).rejects.toThrow(/lost its config\.json, restore that/)
  })

  it('refuse a folder of a newer command', async () => {
    const directory = join(cwd, 'newer')
    await mkdir(directory)
    await writeFile(join(directory, 'config.json'), '{"formatVersion": 99}')
    await expect(plan({ output: 'newer' })).rejects.toThrow(/layout version 99/)
  })

  /** Settings that the trainer does not see: they decide which model is loaded, how, and what is evaluated. */
  const elsewhere = new Set(['model', 'revision', 'threads', 'loraRank', 'rewardScale'])
  const values: Record<string, string | number> = {
    model: 'org/other',
    revision: 'other',
    learningRateSchedule: 'linear',
    jointMode: 'cross',
    temperature: 0.5,
    learningRate: 0.5,
    seed: 1,
    maxSteps: 3,
    unseenPrompts: 4,
    loraRank: 4,
    adamBeta2: 0.5,
  }

  it.each(Object.keys(settingsSchema.shape))('%s changes what is done (check 57)', async (key) => {
    const value = values[key] ?? 977
    const base = await plan({ model: 'org/name' })
    const other = await plan({ model: 'org/name', [key]: value })
    expect(other.settings).toEqual({ ...base.settings, [key]: value })
    const differ = JSON.stringify(configOf(base)) !== JSON.stringify(configOf(other))
    expect(differ).toBe(!elsewhere.has(key))
    expect(() => magrpoConfigSchema.parse(configOf(other))).not.toThrow()
  })

  it('are typed as flags', () => {
    expect(['seed', 'maxNewTokens'].map(flagOf)).toEqual(['--seed', '--max-new-tokens'])
    expect(['runs/a-1', 'C:\\runs\\a', 'my run', 'a"b'].map(quoted)).toEqual([
      'runs/a-1',
      'C:\\runs\\a',
      '"my run"',
      '"a\\"b"',
    ])
  })
})
