import { readFile, readdir, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { MAGRPOTrainerOptions } from '../src/magrpo/trainer.js'
import type { PromptRow } from '../src/magrpo/types.js'
import { consoleNotices } from '../src/run/console-notices.js'
import { rows, temporaryFolder, toyTrainer } from './support/setup.js'

describe('the models of a run', () => {
  it('are in its folder when it has finished, and not before', async () => {
    const run = join(await temporaryFolder(), 'run')
    const first = toyTrainer({ run, config: { maxSteps: 3 } })
    for await (const { step } of first.trainer.updates()) if (step === 2) break
    expect(await readdir(run)).not.toContain('agent_0')
    const { trainer } = toyTrainer({ run: { directory: run, resume: true }, config: { maxSteps: 3 } })
    await trainer.train()
    expect(await readdir(run)).toEqual(expect.arrayContaining(['agent_0', 'agent_1', 'manifest.json']))
    const manifest = JSON.parse(await readFile(join(run, 'manifest.json'), 'utf8')) as { agents: { step: number }[] }
    expect(manifest.agents.map(({ step }) => step)).toEqual([3, 3])
  })

  it('are those of the whole run after it was lengthened or its last save died', async () => {
    const run = join(await temporaryFolder(), 'run')
    await toyTrainer({ run, config: { maxSteps: 1 } }).trainer.train()
    const path = join(run, 'manifest.json')
    await truncate(path, 0)
    await toyTrainer({ run: { directory: run, resume: true }, config: { maxSteps: 1 } }).trainer.train()
    expect((await stat(path)).size).toBeGreaterThan(0)
    await toyTrainer({ run: { directory: run, resume: true }, config: { maxSteps: 2 } }).trainer.train()
    expect(await readFile(path, 'utf8')).toMatch(/"step": 2/)
  })
})

describe('a run that trained nobody', () => {
  const endOf = async (options: Partial<MAGRPOTrainerOptions<PromptRow>>) => {
    const told: string[] = []
    const { trainer } = toyTrainer({
      onNotice: ({ code, message }) => void (code === 'nothing_learnt' && told.push(message)),
      ...options,
      config: { maxSteps: 4, ...options.config },
    })
    await trainer.train()
    return told
  }

  it('says so at its end, and why', async () => {
    const constant = await endOf({ rewardFunc: ({ completions }) => completions[0]!.map(() => 1) })
    expect(constant).toHaveLength(1)
    expect(constant[0]).toMatch(
      /^none of the 4 updates made an optimiser step, .*: the returns within every group are equal/,
    )
    const dropped = await endOf({ rewardFunc: ({ completions }) => completions[0]!.map(() => null) })
    expect(dropped).toEqual([expect.stringMatching(/of 16 joint answers 16 were left out by the reward .*context$/)])
    const one = await endOf({ rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (k === 0 ? 1 : null)) })
    expect(one).toEqual([expect.stringMatching(/of 16 joint answers 12 were left out .*, and otherwise the returns/)])
  })

  it('says nothing after a single step', async () => {
    let call = 0
    expect(
      await endOf({ rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (call++ < 4 ? k : 1)) }),
    ).toEqual([])
  })
})

describe('notices that nobody listens to', () => {
  afterEach(() => void vi.restoreAllMocks())

  it('are lines on stderr, unless they are silenced', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const constant = { rewardFunc: () => [1, 1, 1, 1], trainDataset: rows(2), config: { maxSteps: 2 } }
    await toyTrainer(constant).trainer.train()
    expect(warn).not.toHaveBeenCalled()
    await toyTrainer({ ...constant, onNotice: undefined as never }).trainer.train()
    const lines = warn.mock.calls.map(([line]) => String(line))
    expect(lines).toEqual([
      expect.stringMatching(/^note: update 1: the returns within every group are equal/),
      expect.stringMatching(/^warning: none of the 2 updates made an optimiser step/),
    ])
  })

  it('are one line each, whatever they quote', () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
    consoleNotices()({ code: 'x', level: 'warning', message: 'a\n\u001B[31mb' })
    expect(warn).toHaveBeenCalledWith('warning: a [31mb')
  })
})
