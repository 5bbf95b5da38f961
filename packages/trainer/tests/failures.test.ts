import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { ContextOverflowError, InvalidInputError, SelfplayError } from '@selfplay/engine'
import { perAnswer } from '@selfplay/rewards'
import {
  ConfigError,
  DatasetError,
  FormatterError,
  RewardError,
  SamplerGapError,
  TransitionError,
} from '../src/errors.js'
import { MAGRPOTrainer } from '../src/magrpo/trainer.js'
import { JsonlFile } from '../src/run/files.js'
import { RunFolder } from '../src/run/run-folder.js'
import { finishTrackers } from '../src/track/finish-trackers.js'
import { countA, readLines, rows, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient, ToyTokenizer } from './support/toy-client.js'

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )
const trainFailure = (options: Parameters<typeof toyTrainer>[0]) => failureOf(toyTrainer(options).trainer.train())
const forever = () => new Promise<never>(() => {})

describe('a reward that fails', () => {
  it('check 44: a TypeError on its first line surfaces once, with the stack, after exactly one call', async () => {
    let calls = 0
    const failure = await trainFailure({
      rewardFunc: () => {
        calls++
        return (undefined as unknown as { length: number[] }).length
      },
    })
    expect(calls).toBe(1)
    expect(failure).toBeInstanceOf(RewardError)
    expect(failure).toMatchObject({ code: 'reward', failure: 'threw', cause: expect.any(TypeError) as TypeError })
    expect((failure as { cause: Error }).cause.stack).toContain('failures.test.ts')
  })

  it('check 23: one value for eight answers names both lengths', async () => {
    const failure = await trainFailure({ rewardFunc: () => [1], config: { numGenerations: 8 } })
    expect(failure).toMatchObject({ failure: 'wrong_length', details: { expected: 8, got: 1 } })
    expect(String(failure)).toMatch(/8 rewards.*a list of 1/)
  })

  it.each([Number.NaN, Infinity, undefined, '1'])('refuses %s as a reward, and names the answer', async (value) => {
    const failure = await trainFailure({
      rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (k === 2 ? (value as number) : 0)),
    })
    expect(failure).toMatchObject({ failure: 'not_a_number', details: { answer: 2 } })
  })

  it('refuses per-agent rewards of the wrong shape', async () => {
    expect(await trainFailure({ rewardFunc: () => ({ perAgent: [[1, 2, 3, 4]] }) })).toMatchObject({
      details: { expected: 2, got: 1 },
    })
    expect(await trainFailure({ rewardFunc: () => ({ perAgent: [[1, 2, 3, 4], [1]] }) })).toMatchObject({
      failure: 'wrong_length',
      details: { agent: 1, expected: 4, got: 1 },
    })
    const mixed = perAnswer(({ index }) => (index === 0 ? 1 : [1, 2]))
    expect(await trainFailure({ rewardFunc: mixed })).toMatchObject({ failure: 'not_a_number' })
  })

  it('shows the shape of rewards per agent, and perAnswer, to whom they were meant', async () => {
    for (const entry of [{ perAgent: [1, 2] }, [1, 2]]) {
      const failure = await trainFailure({ rewardFunc: () => [entry, entry, entry, entry] as never })
      expect(failure).toMatchObject({ failure: 'not_a_number' })
      expect(String(failure)).toContain('{ perAgent: [[a0, a1, ...], [b0, b1, ...]] }')
    }
    expect(String(await trainFailure({ rewardFunc: () => 1 as never }))).toContain('perAnswer(rewardFunc)')
  })

  it('refuses a processor that makes no number', async () => {
    expect(await trainFailure({ rewardProcessor: (x) => Math.log(-1 - x) })).toMatchObject({ failure: 'not_a_number' })
  })

  it('check 41: one failed call of many leaves its answers out, with the reason, and is not counted as 0', async () => {
    let call = 0
    const { trainer } = toyTrainer({
      rewardFunc: (args, options) => {
        if (++call === 3) throw new Error('the judge is away')
        return countA(args, options)
      },
    })
    const updates = []
    for await (const update of trainer.updates()) updates.push(update)
    expect(updates).toHaveLength(6)
    const failed = updates[2]!
    expect(failed.metrics).not.toHaveProperty(['turn_1/reward_mean'])
    expect(failed.metrics).toMatchObject({ 'reward/failures': 1, 'turn_1/left_out': 1, 'agent_0/optim_steps': 0 })
    expect(failed.notices.find(({ code }) => code === 'reward_failure')?.message).toContain('the judge is away')
    expect(failed.nodes[0]!.node.answers[0]).toMatchObject({ ending: 'left_out', rewards: [null, null] })
  })

  it('leaves out the single answers for which perAnswer threw, from the first call on, and gives notice', async () => {
    const rewardFunc = perAnswer(({ index, completions }) => {
      if (index === 0) return null
      if (index === 1) throw new Error('the judge is away')
      return completions.join('').length + index
    })
    const { trainer } = toyTrainer({ rewardFunc })
    const { value: first } = await trainer.updates().next()
    expect(first!.nodes[0]!.node.answers.map(({ ending }) => ending)).toEqual([
      'left_out',
      'left_out',
      'last_turn',
      'last_turn',
    ])
    expect(first!.nodes[0]!.node.answers[1]!.reason).toContain('the judge is away')
    expect(first!.metrics).toMatchObject({ 'reward/failures': 1, 'turn_1/left_out': 0.5, 'agent_0/optim_steps': 1 })
    expect(first!.notices.find(({ code }) => code === 'reward_failure')?.message).toContain('the judge is away')
  })

  it('stops after so many failures in a row, and says what the first was', async () => {
    let call = 0
    const failure = await trainFailure({
      rewardFunc: (args, options) => {
        if (++call > 1) throw new Error(`failure ${call}`)
        return countA(args, options)
      },
      config: { maxConsecutiveRewardFailures: 2 },
    })
    expect(call).toBe(3)
    expect(String(failure)).toMatch(/2 reward calls in a row/)
    expect(String(failure)).toContain('failure 2')
  })

  it('check 45: one that never settles ends at its deadline', async () => {
    const failure = await trainFailure({ rewardFunc: forever, config: { rewardTimeoutSeconds: 0.05 } })
    expect(failure).toMatchObject({ failure: 'timeout' })
  })
})

describe('a transition or formatter that fails', () => {
  const two = { numTurns: 2, numGenerations: 2 }

  it.each([
    ['one prompt for two agents', () => ['a'], /2 prompts, one per agent, got a list of 1/],
    ['a prompt that is no text', () => ['a', 5 as unknown as string], /got 5 for agent 1/],
    ['null', () => null as unknown as string[], /got null/],
  ])('refuses %s', async (_, externalTransition, message) => {
    const failure = await trainFailure({ externalTransition, config: two })
    expect(failure).toBeInstanceOf(TransitionError)
    expect(String(failure)).toMatch(message)
  })

  it('passes on what it throws, and ends it at its deadline', async () => {
    const cause = new Error('no feedback today')
    expect(await trainFailure({ externalTransition: () => Promise.reject(cause), config: two })).toMatchObject({
      code: 'transition',
      cause,
    })
    const stuck = await trainFailure({
      externalTransition: forever,
      config: { ...two, transitionTimeoutSeconds: 0.05 },
    })
    expect(String(stuck)).toMatch(/has not settled within 0.05 s/)
  })

  it('names the row, turn and agent of a formatter that returns nothing', async () => {
    const failure = await trainFailure({ formatters: [({ prompt }) => prompt, () => undefined as unknown as string] })
    expect(failure).toBeInstanceOf(FormatterError)
    expect(failure).toMatchObject({ details: { rowIndex: 0, turn: 1, agent: 1 } })
  })

  it('leaves out a branch whose next prompt overflows the context', async () => {
    const { trainer } = toyTrainer({
      agents: [new ToyClient({ contextLength: 20 }), new ToyClient({ contextLength: 20 })],
      externalTransition: ({ agentCompletions }) =>
        agentCompletions[0]!.includes('b') ? ['a'.repeat(30), 'a'] : ['a', 'a'],
      config: { numTurns: 2, maxSteps: 3, numGenerations: 8 },
    })
    let overflowed = 0
    for await (const { nodes } of trainer.updates()) {
      const { node, jointReturns } = nodes[0]!
      node.answers.forEach((answer, j) => {
        if (!answer.reason?.includes('context overflow')) return
        overflowed++
        expect(answer.ending).toBe('left_out')
        expect(jointReturns[0]![j]).toBeNull()
      })
    }
    expect(overflowed).toBeGreaterThan(0)
  })
})

describe('bad input', () => {
  it.each([
    ['an empty prompt', [{ prompt: '' }], InvalidInputError, /prompt is empty at row 0, turn 1, agent 0/],
    [
      'a prompt longer than the context',
      [{ prompt: 'a'.repeat(64) }],
      ContextOverflowError,
      /64 tokens .* context of 64/,
    ],
    ['a row without a prompt', [{} as { prompt: string }], DatasetError, /row 0 has no prompt/],
    [
      'messages without a renderer',
      [{ prompt: [{ role: 'user' as const, content: 'a' }] }],
      InvalidInputError,
      /no renderer/,
    ],
  ])('%s', async (_, trainDataset, type, message) => {
    const failure = await trainFailure({ trainDataset })
    expect(failure).toBeInstanceOf(type)
    expect(String(failure)).toMatch(message)
  })

  it('refuses empty data sets, of any kind', async () => {
    expect(() => toyTrainer({ trainDataset: [] })).toThrow(DatasetError)
    expect(() => toyTrainer({ evalDataset: [] })).toThrow(DatasetError)
    const empty = { async *[Symbol.asyncIterator]() {} }
    expect(await trainFailure({ trainDataset: empty, config: { order: null } })).toBeInstanceOf(DatasetError)
  })

  it('takes an async data set, and says when it gives its rows only once', async () => {
    const source = {
      async *[Symbol.asyncIterator]() {
        yield* rows(3)
      },
    }
    expect((await toyTrainer({ trainDataset: source, config: { order: null } }).trainer.train()).steps).toBe(6)
    const once = source[Symbol.asyncIterator]()
    const failure = await trainFailure({ trainDataset: once, config: { order: null } })
    expect(String(failure)).toMatch(/no rows in epoch 2.*anew each time/)
    expect(() => toyTrainer({ trainDataset: source, config: { order: 'shuffled' } })).toThrow(/needs an array/)
  })

  it('names the row where the source of the data threw, with what it threw', async () => {
    const cause = new Error('the disk is gone')
    const source = (async function* () {
      yield* rows(1)
      throw cause
    })()
    const failure = await trainFailure({ trainDataset: source })
    expect(failure).toBeInstanceOf(DatasetError)
    expect(failure).toMatchObject({ cause, details: { index: 1, epoch: 0 } })
  })

  it('check 57: suggests the nearest option for an unknown one', () => {
    expect(() => toyTrainer({ config: { numGeneration: 4 } as object })).toThrow(
      /no option "numGeneration": did you mean "numGenerations"/,
    )
    expect(() => toyTrainer({ config: { learningRate: 3 } as object })).toThrow(/did you mean "agentLearningRate"/)
    expect(() => toyTrainer({ config: { num_turns: 2 } as object })).toThrow(/did you mean "numTurns"/)
    expect(() => toyTrainer({ config: { earlyTermination: { treshold: 1 } } as object })).toThrow(
      /did you mean "threshold"/,
    )
  })

  it.each<[string, object, RegExp]>([
    ['run', { run: { directory: 'x', resum: true } }, /run has no option "resum": did you mean "resume"/],
    ['run', { run: '' }, /run.directory/],
    ['trackers', { trackers: [{ start: () => {}, log: () => {} }] }, /trackers\[0\].*function "finish"/],
    ['agents', { agents: [{}] }, /agents\[0\]: expected a client of loadAgents/],
    ['agents', { agents: 'two' }, /agents: expected a list of clients, got string/],
    ['dataset', { trainDataset: 'abc' }, /trainDataset: expected a list of rows or an async iterable, got string/],
  ])('check 57: refuses %s %j when the trainer is made', (_, options, message) => {
    expect(() => toyTrainer(options)).toThrow(message)
    expect(() => toyTrainer(options)).toThrow(SelfplayError)
  })

  it('refuses a transition that one turn never asks for', () => {
    const externalTransition = () => ['a', 'b']
    expect(() => toyTrainer({ externalTransition })).toThrow(
      /prompts of a next turn, but config.numTurns is 1: raise it/,
    )
  })

  it('check 57: refuses arguments that an evaluation does not have', async () => {
    const { trainer } = toyTrainer()
    await expect(trainer.evaluate({ rows: rows(1), generation: 3 } as object)).rejects.toThrow(
      /evaluate has no option "generation": did you mean "generations"/,
    )
    await expect(trainer.evaluate({ rows: rows(1), generations: 0 })).rejects.toThrow(/evaluate.generations/)
  })

  it('names the sample whose advantage is too large for float32', async () => {
    const failure = await trainFailure({
      rewardFunc: ({ completions }) => completions[0]!.map((_, k) => (k === 0 ? 1e39 : 0)),
      config: { advantageNormalization: false },
    })
    expect(failure).toBeInstanceOf(InvalidInputError)
    expect(String(failure)).toMatch(
      /update 1, agent 0, row 0, turn 1, completion 0: datum 0: advantages.*weights are unchanged/,
    )
  })

  it.each([
    [{ numGenerations: 0 }, /numGenerations/],
    [{ numGenerations: 1 }, /group of one/],
    [{ numTurns: 2 }, /no externalTransition/],
    [{ temperature: 0 }, /temperature/],
    [{ jointMode: 'cross' as const, numGenerations: 100 }, /100\^2 = 10000 joint answers/],
    [{ trainBatchSize: 2 }, /rolloutBufferSize/],
    [{ raeDecay: 0.5 }, /raeDecay is of running baselines, but advantageMode is "mean"/],
    [{ advantageMode: 'rloo' as const, raeInitial: 1 }, /raeInitial.*"rloo": use "rae"/],
    [{ loss: { name: 'cross_entropy' as const } }, /ignores advantages/],
    [{ numTurns: 2, earlyTermination: { threshold: 1 }, earlyTerminationThreshold: 1 }, /both given/],
    [{ earlyTerminationThreshold: 1 }, /numTurns is 1/],
    [{ perAgent: [null, null, {}] }, /3 entries, but there are 2 agents/],
  ])('refuses the config %j', (config, message) => {
    expect(() => toyTrainer({ config })).toThrow(ConfigError)
    expect(() => toyTrainer({ config })).toThrow(message)
  })

  it('refuses agents and tokenizers of unequal count, or none at all', () => {
    expect(() => toyTrainer({ tokenizer: [new ToyTokenizer()] })).toThrow(/one per agent \(2\), got 1/)
    expect(() => toyTrainer({ agents: [] })).toThrow(/at least one/)
    expect(() => toyTrainer({ formatters: [({ prompt }) => prompt] })).toThrow(
      /formatters: expected one per agent \(2\), got 1/,
    )
    const bare = new ToyClient() as unknown as { tokenizer: undefined }
    bare.tokenizer = undefined
    expect(() => toyTrainer({ agents: [bare as unknown as ToyClient] })).toThrow(/agents\[0\] has no tokenizer/)
  })

  it('every error is typed, with a code', async () => {
    for (const options of [{ rewardFunc: () => [] }, { trainDataset: [{ prompt: '' }] }]) {
      expect(await trainFailure(options)).toBeInstanceOf(SelfplayError)
    }
  })
})

describe('guards', () => {
  it('check 14: weights changed between sampling and training are noticed, and the step is refused', async () => {
    const { trainer, agents } = toyTrainer()
    const client = agents[0]!
    let before: number[] = []
    client.onForwardBackward = () => {
      client.weights = client.weights.map((w, i) => w + (i % 3))
      before = [...client.weights]
    }
    const failure = await failureOf(trainer.train())
    expect(failure).toBeInstanceOf(SamplerGapError)
    expect(failure).toMatchObject({ details: { step: 1, agent: 0, limit: 0.1 } })
    expect([...client.weights]).toEqual(before)
    expect(client.step).toBe(0)
    client.onForwardBackward = undefined
    await expect(toyTrainer({ agents }).trainer.train()).rejects.toThrow(/gradients of a step that was refused/)
    const lenient = toyTrainer({ config: { maxSamplerGap: null, maxSteps: 1 } })
    lenient.agents[0]!.onForwardBackward = () => {
      lenient.agents[0]!.weights = lenient.agents[0]!.weights.map((w, i) => w + (i % 3))
    }
    for await (const { metrics } of lenient.trainer.updates())
      expect(metrics['agent_0/sampler_gap']).toBeGreaterThan(0.1)
  })

  it('can stop at a collapse', async () => {
    let call = 0
    const failure = await trainFailure({
      rewardFunc: ({ completions }) => {
        const level = call++ < 3 ? call : -call
        return completions[0]!.map((_, k) => level + 0.01 * k)
      },
      config: { collapse: { window: 1, stop: true } },
    })
    expect(failure).toMatchObject({ code: 'collapse', details: { step: 4, peakStep: 3, best: null } })
  })

  it.each([
    ['names the checkpoint that is kept after a collapse', 'run', { checkpointEvery: 1 }, 3],
    ['claims none without scheduled checkpoints', 'run', { checkpointEvery: 0 }, null],
    ['claims none without a run folder', undefined, { checkpointEvery: 1 }, null],
  ])('%s', async (_, name, config, best) => {
    let call = 0
    const notices: string[] = []
    const failure = await trainFailure({
      rewardFunc: ({ completions }) => {
        const level = call++ < 3 ? call : -call
        return completions[0]!.map((_, k) => level + 0.01 * k)
      },
      ...(name && { run: join(await temporaryFolder(), name) }),
      onNotice: ({ code, message }) => void (code === 'collapse' && notices.push(message)),
      config: { collapse: { window: 1, stop: true }, ...config },
    })
    expect(failure).toMatchObject({ code: 'collapse', details: { best } })
    const told = [String(failure), ...notices].map((text) => /best checkpoint\D*(\d+)/.exec(text)?.[1])
    const want = best === null ? undefined : String(best)
    expect(told).toEqual([want, want])
  })

  it('references without a penalty that compares with them are refused', async () => {
    const references = [await new ToyClient().snapshot(), null]
    expect(() => toyTrainer({ references })).toThrow(
      /references are what config.referenceKl compares with, but it is off/,
    )
  })

  it('a run folder that cannot be written is a typed error', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'file'), 'x', 'utf8')
    const failure = await trainFailure({ run: join(folder, 'file', 'run') })
    expect(failure).toMatchObject({ code: 'run_folder' })
  })

  it('whatever cannot be written is a typed error with its path: settings, models, lines', async () => {
    const folder = await temporaryFolder()
    await mkdir(join(folder, 'run', 'config.json', 'x'), { recursive: true }) // a folder where a file is to be
    expect(await failureOf(new RunFolder(join(folder, 'run')).describe({}))).toMatchObject({
      code: 'run_folder',
      details: { path: join(folder, 'run', 'config.json') },
    })
    await writeFile(join(folder, 'file'), 'x', 'utf8')
    const { trainer } = toyTrainer()
    expect(await failureOf(trainer.saveModel(join(folder, 'file', 'models')))).toMatchObject({ code: 'run_folder' })
    const lines = new JsonlFile(join(folder, 'lines.jsonl'))
    await lines.open()
    const broken = Object.assign(new Error('ENOSPC: no space left on device, fsync'), { code: 'ENOSPC' })
    Object.assign((lines as unknown as { handle: object }).handle, { sync: () => Promise.reject(broken) })
    expect(await failureOf(lines.sync())).toMatchObject({ code: 'run_folder', cause: broken })
    await lines.close()
  })

  it('what was opened is closed when a run cannot begin', async () => {
    const folder = await temporaryFolder()
    await mkdir(join(folder, 'run', 'rollouts.jsonl'), { recursive: true }) // a folder where a file is to be
    const opened: JsonlFile[] = []
    const open = vi.spyOn(JsonlFile.prototype, 'open').mockImplementation(async function (this: JsonlFile, length) {
      opened.push(this)
      open.mockRestore()
      const again = vi.spyOn(JsonlFile.prototype, 'close')
      closes.push(again)
      return this.open(length)
    })
    const closes: { mock: { contexts: unknown[] }; mockRestore: () => void }[] = []
    expect(await trainFailure({ run: join(folder, 'run') })).toMatchObject({ code: 'run_folder' })
    // Twice: before it is opened, and at the end.
    expect(closes[0]!.mock.contexts.filter((file) => file === opened[0])).toHaveLength(2)
    closes[0]!.mockRestore()
  })

  it('check 45: a tracker that never finishes ends at its deadline', async () => {
    const tracker = { start: () => {}, log: () => {}, finish: forever }
    const failure = await failureOf(finishTrackers([tracker], 'finished', { seconds: 0.05 }))
    expect(failure).toMatchObject({ code: 'deadline' })
    expect(String(failure)).toMatch(/finish of trackers\[0\] has not settled within 0.05 s/)
  })

  it('a tracker that never finishes holds an aborted run no longer than a time of grace', async () => {
    const tracker = { start: () => {}, log: () => {}, finish: forever }
    for (const abortFirst of [true, false]) {
      const controller = new AbortController()
      const reason = new Error('Ctrl-C')
      if (abortFirst) controller.abort(reason)
      else setTimeout(() => controller.abort(reason), 20)
      const options = { signal: controller.signal, abortedSeconds: 0.05 }
      expect(await failureOf(finishTrackers([tracker], 'finished', options))).toBe(reason)
    }
  })

  it('a checkpoint that cannot be saved leaves nothing half written', async () => {
    const run = join(await temporaryFolder(), 'run')
    const { trainer, agents } = toyTrainer({ run, config: { checkpointEvery: 2 } })
    let saves = 0
    const save = agents[1]!.saveState.bind(agents[1]!)
    agents[1]!.saveState = (directory) =>
      ++saves === 2 ? Promise.reject(new Error('no space left on device')) : save(directory)
    const failure = await failureOf(trainer.train())
    expect(failure).toMatchObject({ code: 'checkpoint', details: { step: 4 } })
    expect(String(failure)).toContain('no space left')
    const names = await readdir(join(run, 'checkpoints'))
    expect(names.sort()).toEqual(['step-00000002', 'step-00000004']) // the second try, at the end of the run, worked
    expect(names.some((name) => name.startsWith('.tmp'))).toBe(false)
  })
})

describe('abort', () => {
  async function abortedRun(prepare: (agents: ToyClient[], abort: () => void) => void, config = {}) {
    const run = join(await temporaryFolder(), 'run')
    const { trainer, agents } = toyTrainer({ run, config })
    const controller = new AbortController()
    const reason = new Error('Ctrl-C')
    prepare(agents, () => controller.abort(reason))
    const start = performance.now()
    expect(await failureOf(trainer.train({ signal: controller.signal }))).toBe(reason)
    return { run, agents, seconds: (performance.now() - start) / 1000 }
  }

  it('check 45: during sampling it ends at once, with a checkpoint of the last whole update', async () => {
    const { run, seconds } = await abortedRun((agents, abort) => {
      let calls = 0
      agents[0]!.onSample = (_, signal) => {
        if (++calls < 4) return
        setTimeout(abort, 10)
        return new Promise((_resolve, reject) =>
          signal!.addEventListener('abort', () => reject(signal!.reason as Error)),
        )
      }
    })
    expect(seconds).toBeLessThan(2)
    expect(await readdir(join(run, 'checkpoints'))).toEqual(['step-00000003'])
    const again = toyTrainer({ run: { directory: run, resume: true } })
    expect((await again.trainer.train()).steps).toBe(6)
    expect((await readLines(join(run, 'metrics.jsonl'))).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('once weights have changed, the update is finished first', async () => {
    const { run, agents } = await abortedRun(
      (clients, abort) => {
        clients[1]!.onForwardBackward = () => {
          if (clients[0]!.step === 2) abort()
        }
      },
      { maxConcurrentPolicies: 1 },
    )
    expect(agents.map(({ step }) => step)).toEqual([2, 2])
    expect(await readdir(join(run, 'checkpoints'))).toEqual(['step-00000002'])
  })

  it('an update that takes longer than the time of grace is given up, and resuming goes back', async () => {
    const { run, agents } = await abortedRun(
      (clients, abort) => {
        const train = clients[1]!.forwardBackward.bind(clients[1]!)
        clients[1]!.forwardBackward = (data, loss, options) => {
          if (clients[0]!.step < 4) return train(data, loss, options)
          abort()
          return new Promise((_, reject) =>
            options!.signal!.addEventListener('abort', () => reject(options!.signal!.reason as Error)),
          )
        }
      },
      { abortGraceSeconds: 0.05, checkpointEvery: 2, keepCheckpoints: 5, maxConcurrentPolicies: 1 },
    )
    expect(agents.map(({ step }) => step)).toEqual([4, 3])
    expect(await readdir(join(run, 'checkpoints'))).toEqual(['step-00000002'])
    const again = toyTrainer({ run: { directory: run, resume: true }, config: { checkpointEvery: 2 } })
    for await (const { step } of again.trainer.updates()) {
      expect(step).toBe(3)
      break
    }
  })

  it('check 45: while waiting for a row that does not come', async () => {
    const run = join(await temporaryFolder(), 'run')
    const source = {
      async *[Symbol.asyncIterator]() {
        yield* rows(3)
        await forever()
      },
    }
    const { trainer } = toyTrainer({ run, trainDataset: source, config: { order: 'fixed' } })
    const controller = new AbortController()
    const reason = new Error('Ctrl-C')
    const steps: number[] = []
    const training = async () => {
      for await (const { step } of trainer.updates({ signal: controller.signal })) {
        steps.push(step)
        if (step === 2) setTimeout(() => controller.abort(reason), 10)
      }
    }
    expect(await failureOf(training())).toBe(reason)
    expect(steps).toEqual([1, 2])
    expect(await readdir(join(run, 'checkpoints'))).toEqual(['step-00000002'])
  })

  it('a signal that is aborted already starts nothing', async () => {
    const { trainer, agents } = toyTrainer()
    await expect(trainer.train({ signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow('no')
    expect(agents[0]!.calls.sample).toBe(0)
  })

  it('check 60: a long run leaves no sampler and no listener behind', async () => {
    const agents = [new ToyClient(), new ToyClient()]
    let open = 0
    for (const agent of agents) {
      const make = agent.sampler.bind(agent)
      agent.sampler = async () => {
        const sampler = await make()
        open++
        const dispose = sampler.dispose.bind(sampler)
        sampler.dispose = () => {
          open--
          return dispose()
        }
        return sampler
      }
    }
    const controller = new AbortController()
    let listeners = 0
    const { signal } = controller
    const add = signal.addEventListener.bind(signal) as typeof signal.addEventListener
    const remove = signal.removeEventListener.bind(signal) as typeof signal.removeEventListener
    signal.addEventListener = ((...args: Parameters<typeof add>) => (listeners++, add(...args))) as typeof add
    signal.removeEventListener = ((...args: Parameters<typeof remove>) => (
      listeners--,
      remove(...args)
    )) as typeof remove
    const { trainer } = toyTrainer({ agents, trainDataset: rows(8), config: { numTrainEpochs: 25 } })
    let most = 0
    for await (const _update of trainer.updates({ signal })) most = Math.max(most, open)
    expect(most).toBeLessThanOrEqual(2)
    expect(open).toBe(0)
    expect(listeners).toBe(0)
  })
})

describe('MAGRPOTrainer', () => {
  it('check 57: suggests the nearest name for an unknown option', () => {
    expect(() => toyTrainer({ rewardFunction: countA } as object)).toThrow(
      /no option "rewardFunction": did you mean "rewardFunc"/,
    )
  })

  it('needs a reward function', () => {
    const options = {
      agents: [new ToyClient({ contextLength: 400 })],
      trainDataset: rows(1),
    } as unknown as ConstructorParameters<typeof MAGRPOTrainer>[0]
    expect(() => new MAGRPOTrainer(options)).toThrow(/rewardFunc: expected a function/)
  })
})
