import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EnvFromMessageEnv, groupOf } from '@selfplay/env'
import { byteTokenizer, mockMessageEnv } from '@selfplay/env/testing'
import { assistant, getRenderer, system, textOf, user, type Message } from '@selfplay/renderers'
import { DatasetError } from '../src/errors.js'
import { listCheckpoints } from '../src/run/checkpoint.js'
import { RLTrainer } from '../src/rl/trainer.js'
import { examplesOf, normaliseWeights, packByTokens, toSupervisedDatum } from '../src/supervised/examples.js'
import { nllEvaluator, nllOf, weightedBytes } from '../src/supervised/nll.js'
import { SupervisedTrainer, trainSupervised, type SupervisedUpdate } from '../src/supervised/trainer.js'
import type { SupervisedConfig } from '../src/supervised/config.js'
import { exact, readLines, temporaryFolder } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

const tokenizer = byteTokenizer()
const renderer = getRenderer('chatml', tokenizer, { defaultSystem: null })
const alphabet = Array.from({ length: tokenizer.vocabSize - 1 }, (_, k) => String.fromCodePoint(0x4e00 + k)).join('')
/** A bigram policy over the bytes and markers. */
const byteClient = (options: ConstructorParameters<typeof ToyClient>[0] = {}) =>
  new ToyClient({ alphabet, contextLength: 400, ...options })

const conversations = (count: number): Message[][] =>
  Array.from({ length: count }, (_, k) => [user(`say ${'abcdefghij'[k % 10]}`), assistant('abc'.repeat(1 + (k % 3)))])

function setup(overrides: Partial<SupervisedConfig> = {}) {
  const client = (overrides.client ?? byteClient()) as ToyClient
  const config = {
    dataset: conversations(10),
    renderer,
    learningRate: 0.1,
    batchSize: 4,
    epochs: 2,
    onNotice: () => {},
    ...overrides,
    client,
  }
  return { trainer: new SupervisedTrainer(config), client, config }
}

async function collect(overrides: Partial<SupervisedConfig> = {}) {
  const { trainer, client } = setup(overrides)
  const updates: SupervisedUpdate[] = []
  for await (const update of trainer.updates()) updates.push(update)
  return { updates, client, rows: updates.map(({ metrics }) => metrics) }
}

describe('examples', () => {
  const of = (
    row: Parameters<typeof examplesOf>[0],
    trainOn: Parameters<typeof examplesOf>[2]['trainOn'] = 'all_assistant_messages',
  ) => examplesOf(row, 3, { renderer, trainOn })

  it('are those of the renderer: the answer and its stop carry weight, behind the prompt that it is sampled from', () => {
    const messages = [system('be brief'), user('hi'), assistant('yo')]
    const [example] = of(messages)
    const prompt = renderer.generationPrompt(messages.slice(0, 2))
    expect(example!.tokens.slice(0, prompt.length)).toEqual(prompt)
    expect([...example!.weights]).toEqual([...example!.tokens].map((_, t) => (t >= prompt.length ? 1 : 0)))
    const { datum, weight } = toSupervisedDatum(example!, 400)!
    expect(datum.targets.filter((_, t) => datum.weights![t] === 1)).toEqual(example!.tokens.slice(prompt.length))
    expect(weight).toBe(tokenizer.encode('yo').length + 1)
    expect(datum.tokens).toHaveLength(example!.tokens.length - 1)
  })

  it('take modes from the row or the run, and ready-made ids as they are', () => {
    const messages = [user('a'), assistant('b'), user('c'), assistant('d')]
    const weight = (row: Parameters<typeof of>[0], mode?: Parameters<typeof of>[1]) =>
      of(row, mode).reduce((sum, { weights }) => sum + weights.reduce((a, b) => a + b, 0), 0)
    expect(weight(messages)).toBe(4)
    expect(weight(messages, 'last_assistant_message')).toBe(2)
    expect(weight({ messages, trainOn: 'last_assistant_message' })).toBe(2)
    expect(weight(messages, 'all_user_and_system_messages')).toBe(4)
    const example = { tokens: Int32Array.of(1, 2), weights: Float32Array.of(0, 0.5) }
    expect(of(example)).toEqual([example])
  })

  it('a format that drops earlier thoughts gives one example per answer', () => {
    const qwen = getRenderer('qwen3', tokenizer)
    const thought = (k: number): Message =>
      assistant([
        { type: 'thinking', thinking: `because ${k}` },
        { type: 'text', text: `answer ${k}` },
      ])
    const rows = [user('a'), thought(1), user('b'), thought(2)]
    expect(examplesOf(rows, 0, { renderer: qwen, trainOn: 'all_assistant_messages' })).toHaveLength(2)
  })

  it('refuse rows that are none, naming them', () => {
    expect(() => of([user('a'), assistant('b')], 'customized')).toThrow(/row 3: /)
    expect(() => examplesOf([user('a')], 3, { renderer: undefined, trainOn: 'all_tokens' })).toThrow(
      /row 3 .*pass renderer/,
    )
    expect(() => of({ tokens: Int32Array.of(1), weights: new Float32Array(2) })).toThrow(/1 tokens came with 2 weights/)
    expect(() => of('hello' as unknown as Message[])).toThrow(DatasetError)
  })

  it('check 16: cut off inside a tool call, all arrays have one length, and weights stay with their tokens', () => {
    const call: Message = assistant([
      { type: 'text', text: 'look' },
      { type: 'tool_call', name: 'find', arguments: '{"what": "it"}' },
    ])
    const [example] = of([user('q'), call])
    for (let maxLength = 1; maxLength < example!.tokens.length; maxLength++) {
      const found = toSupervisedDatum(example!, maxLength)
      const weighted = example!.weights.slice(1, maxLength + 1).filter((weight) => weight > 0).length
      expect(found?.weight ?? 0).toBe(weighted)
      const { datum, truncated } = found ?? {
        datum: { tokens: example!.tokens.slice(0, maxLength), targets: example!.tokens.slice(1, maxLength + 1) },
        truncated: true,
      }
      expect(truncated).toBe(maxLength < example!.tokens.length - 1)
      expect(datum.tokens).toEqual(example!.tokens.slice(0, maxLength))
      expect(datum.targets).toEqual(example!.tokens.slice(1, maxLength + 1))
    }
  })

  it('packs every item into exactly one call within the limit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 20 }),
        fc.integer({ min: 1, max: 60 }),
        (lengths, max) => {
          const calls = packByTokens(lengths, max)
          expect(calls.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, index) => index))
          const sizes = calls.map((items) => items.reduce((sum, index) => sum + lengths[index]!, 0))
          expect(sizes.every((size, k) => size <= max || calls[k]!.length === 1)).toBe(true)
          // No two calls could have been one, so there are fewer than twice as many as needed.
          expect(sizes.some((a, i) => sizes.some((b, j) => i < j && a + b <= max))).toBe(false)
        },
      ),
      { seed: 2, numRuns: 100 },
    )
    expect(packByTokens([9, 9], null)).toEqual([[0, 1]])
    expect(packByTokens([], 5)).toEqual([])
  })

  it('check 50: weights make one mean over the batch', () => {
    const data = [3, 5].map((length) =>
      toSupervisedDatum({ tokens: new Int32Array(length + 1), weights: new Float32Array(length + 1).fill(1) }, 99)!,
    )
    const sums = (reduction: 'example' | 'token') =>
      normaliseWeights(data, reduction).map(({ weights }) => weights!.reduce((a, b) => a + b, 0))
    expect(sums('example')).toEqual([0.5, 0.5].map((x) => expect.closeTo(x, 6) as number))
    expect(sums('token')).toEqual([3 / 8, 5 / 8].map((x) => expect.closeTo(x, 6) as number))
  })
})

describe('bits per byte', () => {
  it('count the UTF-8 bytes of weighted text, without control tokens', () => {
    const [example] = examplesOf([user('q'), assistant('é漢')], 0, { renderer, trainOn: 'all_assistant_messages' })
    const { datum } = toSupervisedDatum(example!, 400)!
    expect(weightedBytes(datum, tokenizer)).toBe(5)
    const logprobs = [datum.targets].map((targets) => new Float32Array(targets.length).fill(-Math.LN2))
    expect(nllOf([datum], logprobs)).toEqual({ nats: expect.closeTo(6 * Math.LN2, 5) as number, weight: 6 })
  })

  it('a uniform policy over 263 ids has log2(263) bits per token', async () => {
    const client = byteClient()
    client.weights.fill(0)
    const evaluate = (maxTokensPerCall: number | null) =>
      nllEvaluator('x', conversations(5), { renderer, maxTokensPerCall }).evaluate({
        client,
        sampler: () => client.sampler(),
        step: 0,
        seed: 0,
        signal: new AbortController().signal,
      })
    const { nll, bpb, num_loss_tokens: tokens } = await evaluate(null)
    expect(nll).toBeCloseTo(Math.log(263), 5)
    const bytes = tokens! - 5 // one stop token per row
    expect(bpb).toBeCloseTo((Math.log2(263) * tokens!) / bytes, 4)
    expect((await evaluate(30)).nll).toBeCloseTo(nll!, 6)
  })
})

describe('trainSupervised', () => {
  it('learns, measures held-out rows before and after, and writes what it did', async () => {
    const run = join(await temporaryFolder(), 'run')
    const client = byteClient()
    const result = await trainSupervised({
      client,
      dataset: conversations(12),
      renderer: 'chatml',
      tokenizer,
      learningRate: 0.8,
      batchSize: 4,
      epochs: 4,
      onNotice: () => {},
      evalDataset: conversations(3),
      evalEvery: 5,
      run,
    })
    expect(result.steps).toBe(12)
    const rows = await readLines(join(run, 'metrics.jsonl'))
    expect(rows.map(({ epoch }) => epoch)).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    expect(Number(rows.at(-1)!['train_mean_nll'])).toBeLessThan(0.5 * Number(rows[0]!['train_mean_nll']))
    expect(rows[0]).toMatchObject({ step: 1, progress: 1 / 12, num_sequences: 4, num_truncated: 0, learning_rate: 0.8 })
    expect(Number(rows[6]!['learning_rate'])).toBeCloseTo(0.4, 10)
    const evaluations = await readLines(join(run, 'evaluations.jsonl'))
    expect(evaluations.map(({ step }) => step)).toEqual([0, 5, 10, 12])
    for (const name of ['test/nll', 'test/bpb'])
      expect(Number(evaluations.at(-1)![name])).toBeLessThan(0.5 * Number(evaluations[0]![name]))
    expect(JSON.parse(await readFile(join(run, 'config.json'), 'utf8'))).toMatchObject({
      trainer: 'supervised',
      config: { renderer: 'chatml', trainOn: 'all_assistant_messages' },
    })
  })

  it.each(['example', 'token'] as const)(
    'check 50: by %s, any size of calls gives the same numbers and weights',
    async (reduction) => {
      const at = async (maxTokensPerCall: number | null) => collect({ reduction, maxTokensPerCall, batchSize: 5 })
      const [one, many] = [await at(null), await at(40)]
      expect(one.rows[0]!['num_calls']).toBe(1)
      expect(many.rows[0]!['num_calls']).toBeGreaterThan(2)
      many.rows.forEach((row, k) => {
        for (const name of ['train_mean_nll', 'loss', 'grad_norm'])
          expect(row[name]).toBeCloseTo(one.rows[k]![name]!, 5)
      })
      many.client.weights.forEach((w, i) => expect(w).toBeCloseTo(one.client.weights[i]!, 4))
    },
  )

  it('is exact on resume, and trains no batch twice', async () => {
    const folder = await temporaryFolder()
    const at = (name: string, resume = false) =>
      setup({
        run: { directory: join(folder, name), resume },
        checkpointEvery: 2,
        epochs: 3,
        evalDataset: conversations(2),
        evalEvery: 2,
      })
    const outcome = async (name: string, client: ToyClient) => ({
      metrics: (await readLines(join(folder, name, 'metrics.jsonl'))).map(exact),
      evaluations: await readLines(join(folder, name, 'evaluations.jsonl')),
      weights: [...client.weights],
      saved: await readFile(join(folder, name, 'checkpoints', 'step-00000009', 'policy', 'state.json'), 'utf8'),
    })
    const whole = at('whole')
    await whole.trainer.train()
    // Dies in update 6: the checkpoint is that of update 4, and the lines after it are cut.
    const killed = at('run')
    killed.client.onForwardBackward = () => {
      if (killed.client.step === 5) throw new Error('power')
    }
    await expect(killed.trainer.train()).rejects.toThrow('power')
    await writeFile(join(folder, 'run', 'checkpoints', 'step-00000005', 'manifest.json'), '')
    const next = at('run', true)
    const steps: number[] = []
    for await (const { step } of next.trainer.updates()) steps.push(step)
    expect(steps).toEqual([5, 6, 7, 8, 9])
    expect(await outcome('run', next.client)).toEqual(await outcome('whole', whole.client))
    await expect(new RLTrainer(rlConfig(byteClient(), join(folder, 'run'))).train()).rejects.toThrow(/kind/)
  })

  it('leaves out what has no weighted token left, counts it, and survives a batch of nothing else', async () => {
    const long: Message[] = [user('x'.repeat(500)), assistant('y')]
    const { rows, updates, client } = await collect({
      dataset: [long, long, ...conversations(3)],
      batchSize: 2,
      order: 'fixed',
      epochs: 1,
    })
    expect(rows.map((row) => [row['num_sequences'], row['num_dropped']])).toEqual([
      [0, 2],
      [2, 0],
      [1, 0],
    ])
    expect(updates[0]!.nll).toBeNaN()
    expect(updates[0]!.notices).toMatchObject([{ code: 'dropped_examples' }])
    expect(client.step).toBe(2)
    const cut = await collect({ dataset: conversations(4), maxLength: 28, epochs: 1 })
    expect(cut.rows[0]!['num_truncated']).toBeGreaterThan(0)
  })

  it('gives the run up when an update dies between two calls: no gradient is left for a later step', async () => {
    const { trainer, client } = setup({ maxTokensPerCall: 40 })
    let calls = 0
    client.onForwardBackward = () => {
      if (++calls === 2) throw new Error('memory')
    }
    await expect(trainer.train()).rejects.toThrow('memory')
    await expect(trainer.train()).rejects.toThrow(/middle of an update/)
    await expect(setup({ client }).trainer.train()).rejects.toThrow(/gradients of a step that was refused/)
    expect(client.step).toBe(0)
  })

  it.each<[string, object, RegExp]>([
    ['an unknown key', { learnRate: 1 }, /no option "learnRate": did you mean "learningRate"/],
    ['no learning rate', { learningRate: undefined }, /trainSupervised\.learningRate is missing: expected number$/],
    ['no rows', { dataset: [] }, /at least one row/],
    ['no held-out rows', { evalDataset: [] }, /at least one row/],
    ['a schedule without an end', { dataset: { async *[Symbol.asyncIterator]() {} } }, /needs the length of the run/],
    ['an unknown mode', { trainOn: 'everything' }, /trainOn/],
  ])('refuses %s', (_, part, message) => {
    expect(() => setup(part)).toThrow(message)
  })

  it('shows the shapes of rows to whoever has another one', async () => {
    const { trainer } = setup({ dataset: [{ prompt: 'a', completion: 'b' }] as never })
    await expect(trainer.train()).rejects.toThrow(
      /row 0: expected a list of messages, {messages}, or {tokens, weights}, got {prompt, completion}/,
    )
  })

  it('takes rows as they come', async () => {
    const rows = conversations(5)
    const dataset = {
      async *[Symbol.asyncIterator]() {
        yield* await Promise.resolve(rows)
      },
    }
    const { updates } = await collect({ dataset, learningRateSchedule: 'constant', batchSize: 2, epochs: 1 })
    expect(updates.map(({ totalSteps, metrics }) => [totalSteps, metrics['num_sequences']])).toEqual([
      [null, 2],
      [null, 2],
      [null, 1],
    ])
  })

  it('an abort does not wait for a row that never comes, and what was learnt is kept', async () => {
    const run = join(await temporaryFolder(), 'run')
    const dataset = {
      async *[Symbol.asyncIterator]() {
        yield* conversations(3)
        await new Promise<never>(() => {})
      },
    }
    const { trainer } = setup({ dataset, learningRateSchedule: 'constant', batchSize: 2, run })
    const controller = new AbortController()
    const training = (async () => {
      for await (const { step } of trainer.updates({ signal: controller.signal }))
        setTimeout(() => controller.abort(new Error(`enough after ${step}`)), 20)
    })()
    await expect(training).rejects.toThrow('enough after 1')
    expect(await listCheckpoints(join(run, 'checkpoints'))).toHaveLength(1)
  })

  let plain: ReturnType<typeof collect> | undefined
  it.each<[string, Partial<SupervisedConfig>]>([
    ['order', { order: 'fixed' }],
    ['seed', { seed: 5 }],
    ['steps', { steps: 3 }],
    ['reduction', { reduction: 'token' }],
    ['trainOn', { trainOn: 'all_tokens' }],
    ['maxLength', { maxLength: 28 }],
    ['learningRateSchedule', { learningRateSchedule: 'constant' }],
  ])('%s changes what is learnt', async (_, part) => {
    plain ??= collect()
    expect([...(await collect(part)).client.weights]).not.toEqual([...(await plain).client.weights])
  })
})

/** An RL run in messages: the policy is paid for saying a. */
function rlConfig(client: ToyClient, run?: string) {
  const env = () =>
    new EnvFromMessageEnv({
      renderer,
      maxGenerationTokens: 8,
      messageEnv: mockMessageEnv(
        (reply) => ({ reward: textOf(reply).split('a').length - 1, episodeDone: true, nextMessages: [] }),
        [user('say a')],
      ),
    })
  return {
    client,
    renderer,
    dataset: { length: 1, getBatch: () => [groupOf(env, { size: 8 })] },
    learningRate: 0.05,
    steps: 4,
    klPenalty: { coef: 0.01 },
    ...(run !== undefined && { run: { directory: run, resume: true } }),
  }
}

it('check 56: from a supervised start, RL with the same renderer begins at KL 0 to its reference', async () => {
  const client = byteClient()
  await trainSupervised({ client, dataset: conversations(12), renderer, learningRate: 0.8, epochs: 6, batchSize: 4 })
  const kls: number[] = []
  const rewards: number[] = []
  for await (const { metrics } of new RLTrainer(rlConfig(client)).updates()) {
    kls.push(metrics['kl_policy_base']!)
    rewards.push(metrics['env/all/reward/total']!)
    expect(metrics['optim/sampler_gap_max']).toBeLessThan(1e-5)
  }
  expect(Math.abs(kls[0]!)).toBeLessThan(1e-6)
  expect(Math.abs(kls.at(-1)!)).toBeGreaterThan(1e-6)
  expect(rewards[0]).toBeGreaterThan(0.5) // it says a already: the supervised start is what was sampled
})
