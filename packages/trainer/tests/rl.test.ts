import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { SamplingClient, TrainingClient } from '@selfplay/engine'
import { datasetOf, groupOf, type EnvGroupBuilder, type RLDataset } from '@selfplay/env'
import { byteTokenizer } from '@selfplay/env/testing'
import { getRenderer } from '@selfplay/renderers'
import { ConfigError, SamplerGapError } from '../src/errors.js'
import { creditBatch } from '../src/rl/assemble.js'
import { resolveRLConfig } from '../src/rl/options.js'
import { fromGroupRecord, parseGroupRecord } from '../src/rl/record.js'
import { rolloutEvaluator } from '../src/rl/rollout-evaluator.js'
import { trainRL, type RLUpdate } from '../src/rl/trainer.js'
import { initialRLState } from '../src/rl/state.js'
import { runRLUpdate } from '../src/rl/update.js'
import { LetterEnv, letterGroup, letters, toyRL } from './support/rl.js'
import { exact, readLines, temporaryFolder } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

async function collect(overrides: Parameters<typeof toyRL>[0] = {}) {
  const { trainer, client } = toyRL(overrides)
  const updates: RLUpdate[] = []
  for await (const update of trainer.updates()) updates.push(update)
  return { updates, client, rows: updates.map(({ metrics }) => metrics) }
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** A group whose members all earn the same. */
const constantGroup = (reward = 1): EnvGroupBuilder =>
  groupOf(
    () => {
      const env = new LetterEnv('a')
      return { initialObservation: () => env.initialObservation(), step: (action) => ({ ...env.step(action), reward }) }
    },
    { size: 4 },
  )

/** A data set of one batch. */
const always = (...builders: EnvGroupBuilder[]): RLDataset => ({ length: 1, getBatch: () => builders })

describe('trainRL', () => {
  it('learns, and its rows hold what the names say', async () => {
    const run = join(await temporaryFolder(), 'run')
    const client = new ToyClient()
    const result = await trainRL({
      client,
      dataset: letters({ turns: 2 }),
      learningRate: 0.1,
      steps: 30,
      run,
      onNotice: () => {},
      tokenizer: client.tokenizer,
      evaluators: [rolloutEvaluator('test', letters({ turns: 2, size: 8 }), { temperature: 1 })],
    })
    expect(result.steps).toBe(30)
    expect(result.checkpoint).toMatch(/step-00000030$/)
    const rows = await readLines(join(run, 'metrics.jsonl'))
    expect(rows.map(({ step }) => step)).toEqual(Array.from({ length: 30 }, (_, k) => k + 1))
    const mean = (part: typeof rows) =>
      part.reduce((sum, row) => sum + Number(row['env/all/reward/total']), 0) / part.length
    expect(mean(rows.slice(-5))).toBeGreaterThan(2 * mean(rows.slice(0, 5)))
    expect(rows[0]).toMatchObject({
      'progress/batch': 1,
      'progress/done_frac': 1 / 30,
      'optim/lr': 0.1,
      'optim/steps': 1,
      'env/all/total_episodes': 8,
      'env/all/total_turns': 16,
      'env/all/turns_per_episode': 2,
      'env/a/total_episodes': 4,
      'data/datums_per_trajectory': 1,
      'data/prefix_breaks': 0,
      'rollout_errors/total': 0,
      'sampling_client/step_max': 0,
      'training_client/step': 0,
    })
    expect(rows[0]!['data/trained_tokens']).toBe(rows[0]!['env/all/total_ac_tokens'])
    expect(rows[7]).toMatchObject({ 'progress/epoch': 2, 'sampling_client/step_min': 7 })
    for (const name of ['optim/kl_sample_train_v1', 'optim/kl_sample_train_v2', 'optim/sampler_gap_max'])
      expect(Math.abs(Number(rows[3]![name]))).toBeLessThan(1e-5)
    for (const name of ['optim/entropy', 'optim/loss', 'optim/grad_norm', 'time/total', 'time/rollout', 'time/train'])
      expect(rows[3]).toHaveProperty([name])
    const evaluations = await readLines(join(run, 'evaluations.jsonl'))
    expect(evaluations.map(({ step }) => step)).toEqual([0, 20, 30])
    const [first, , last] = evaluations.map((row) => Number(row['test/env/all/reward/total']))
    expect(last).toBeGreaterThan(2 * first!)
    expect((await readdir(join(run, 'reports'))).sort()).toEqual(['step-00000020.html', 'step-00000030.html'])
    expect(JSON.parse(await readFile(join(run, 'config.json'), 'utf8'))).toMatchObject({
      trainer: 'rl',
      config: { learningRate: 0.1, advantageMode: 'mean', renderer: null },
    })
  })

  it('check 12: at another temperature trainer and sampler still agree', async () => {
    const { rows } = await collect({ temperature: 0.7, steps: 2 })
    for (const row of rows) expect(row['optim/sampler_gap_max']).toBeLessThan(1e-5)
  })

  it('check 14: a weight that changes between sampling and training is measured, and the step refused', async () => {
    const { trainer, client } = toyRL({ steps: 3 })
    client.onForwardBackward = () => (client.weights = client.weights.map((w, i) => (i % 2 ? w + 2 : w - 2)))
    const failure = await failureOf(trainer.train())
    expect(failure).toBeInstanceOf(SamplerGapError)
    expect(String(failure)).toMatch(/update 1.*differ by .* on average/)
    expect(client.step).toBe(0)
    // The gradients of that step are still there: training goes on only after a load.
    await expect(toyRL({ client }).trainer.train()).rejects.toThrow(/gradients of a step that was refused/)

    const tolerant = toyRL({ steps: 1, maxSamplerGap: null })
    tolerant.client.onForwardBackward = () =>
      (tolerant.client.weights = tolerant.client.weights.map((w, i) => (i % 2 ? w + 2 : w - 2)))
    const { metrics } = await tolerant.trainer.train()
    expect(metrics!['optim/sampler_gap_mean']).toBeGreaterThan(0.1)
    expect(metrics!['optim/sampler_gap_max']).toBeGreaterThan(metrics!['optim/sampler_gap_mean']!)
  })

  it('check 18: Inf in one sample names the update, the group and the slot, and changes nothing', async () => {
    const { trainer, client } = toyRL({ steps: 2 })
    const before = [...client.weights]
    client.onForwardBackward = (data) => data[2]!.advantages!.fill(Infinity)
    const failure = await failureOf(trainer.train())
    expect(failure).toMatchObject({ code: 'invalid_input', details: { step: 1, group: 0, slot: 2 } })
    expect(String(failure)).toMatch(/update 1, group 0, slot 2, turns 0 to 0: .*Infinity/)
    client.onForwardBackward = (data) => data[2]!.samplerLogprobs!.fill(-1e4)
    expect(await failureOf(toyRL({ client, steps: 2 }).trainer.train())).toMatchObject({
      code: 'non_finite',
      details: { step: 1, group: 0, slot: 2 },
    })
    expect([...client.weights]).toEqual(before)
  })

  it('check 20: groups without variance leave the optimiser alone; the update counts once and says why', async () => {
    const { updates, client } = await collect({ dataset: always(constantGroup(), constantGroup(2)), steps: 2 })
    expect(client.step).toBe(0)
    expect(client.calls).toMatchObject({ forwardBackward: 0, optimStep: 0 })
    expect(updates.map(({ step }) => step)).toEqual([1, 2])
    expect(updates[0]!.metrics).toMatchObject({ frac_constant_groups: 1, 'groups/constant': 2, 'optim/steps': 0 })
    expect(updates[0]!.notices).toMatchObject([{ code: 'constant_groups', message: /equal/ }])
    const mixed = await collect({ dataset: always(constantGroup(), letterGroup('a')), steps: 1 })
    expect(mixed.rows[0]).toMatchObject({ frac_constant_groups: 0.5, 'data/datums': 4, 'optim/steps': 1 })
  })

  it('check 50: groups of 3 and 5 weigh by episodes and by tokens', async () => {
    const dataset = always(letterGroup('a', { size: 3 }), letterGroup('b', { size: 5 }))
    const { updates } = await collect({ dataset, steps: 1 })
    const members = updates[0]!.groups.flatMap(({ group }) => group.members)
    expect(members).toHaveLength(8)
    expect(updates[0]!.rewardMean).toBeCloseTo(members.reduce((sum, { reward }) => sum + reward, 0) / 8, 12)
    const logprobs = members.flatMap(({ trajectory }) => trajectory.transitions.flatMap((t) => [...t.action.logprobs!]))
    expect(updates[0]!.metrics['optim/entropy']).toBeCloseTo(
      -logprobs.reduce((sum, lp) => sum + lp, 0) / logprobs.length,
      6,
    )
  })

  it('check 51: 2 of 8 cut off is a rate of 0.25 exactly', async () => {
    let made = 0
    const group = groupOf(
      () => {
        const cut = made++ % 4 === 0
        const env = new LetterEnv('a')
        return {
          initialObservation: () => env.initialObservation(),
          step: (action) => ({
            ...env.step(action),
            stopReason: cut ? ('max_tokens' as const) : ('completed' as const),
          }),
        }
      },
      { size: 8 },
    )
    const { rows } = await collect({ dataset: always(group), steps: 1 })
    expect(rows[0]!['env/all/stop/max_tokens']).toBe(0.25)
    expect(rows[0]!['env/all/stop/completed']).toBe(0.75)
  })

  it('check 53: one seed gives one set of transcripts at any concurrency, another seed others', async () => {
    const transcripts = async (seed: number, concurrency: number) => {
      const client = new ToyClient()
      // Later requests answer first.
      let pending = 20
      client.onSample = () => new Promise((resolve) => setTimeout(resolve, Math.max(0, pending--)))
      const { updates } = await collect({ client, seed, concurrency, steps: 2 })
      return updates.flatMap(({ groups }) =>
        groups.map(({ group }) =>
          group.members.map(({ trajectory }) => trajectory.transitions.map((t) => [...t.action.tokens])),
        ),
      )
    }
    const [first, again, alone, other] = await Promise.all([
      transcripts(7, 8),
      transcripts(7, 8),
      transcripts(7, 1),
      transcripts(8, 8),
    ])
    expect(again).toEqual(first)
    expect(alone).toEqual(first)
    expect(other).not.toEqual(first)
  })

  it('check 46: completions carry their version, and those of older weights are dropped and counted', async () => {
    const client = new ToyClient()
    const held: SamplingClient = await client.snapshot()
    const stale = new Proxy(client, {
      get: (target, name) => {
        if (name === 'sampler') return () => Promise.resolve({ ...methods(held), dispose: () => Promise.resolve() })
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    }) as TrainingClient
    const { updates, rows } = await collect({ client: stale as ToyClient, steps: 3 })
    expect(rows.map((row) => row['groups/stale'])).toEqual([0, 2, 2])
    expect(rows.map((row) => row['optim/steps'])).toEqual([1, 0, 0])
    expect(updates[1]!.notices).toMatchObject([{ code: 'stale_samples', level: 'warning' }])
    for (const { groups } of updates)
      for (const { group } of groups)
        for (const { trajectory } of group.members)
          expect(trajectory.transitions.map(({ action }) => action.policyVersion)).toEqual([0])
    expect(client.step).toBe(1)
  })

  function methods(sampler: SamplingClient): SamplingClient {
    return {
      policyVersion: sampler.policyVersion,
      contextLength: sampler.contextLength,
      sample: (...args) => sampler.sample(...args),
      logprobs: (...args) => sampler.logprobs(...args),
      dispose: () => sampler.dispose(),
    }
  }

  it('check 41: a failing group is left out and counted; too many in a row stop the run with the first cause', async () => {
    let calls = 0
    const sick = { ...letterGroup('a'), computeGroupRewards: () => Promise.reject(new Error(`judge away ${++calls}`)) }
    const { rows, updates } = await collect({
      dataset: always(letterGroup('b'), sick),
      steps: 3,
      maxConsecutiveFailures: 2,
    })
    expect(rows[0]).toMatchObject({ 'env/all/groups/failed': 1, 'env/all/total_episodes': 4, 'optim/steps': 1 })
    expect(updates[0]!.notices[0]).toMatchObject({ code: 'rollout_failure', message: /judge away 1/ })
    calls = 0
    const all = toyRL({
      dataset: datasetOf([0, 1, 2], (row) => (row === 0 ? letterGroup('b') : sick), { batchSize: 1 }),
    })
    const failure = await failureOf(
      toyRL({ ...all.config, client: new ToyClient(), maxConsecutiveFailures: 2, steps: 9 }).trainer.train(),
    )
    expect(String(failure)).toMatch(/2 groups in a row failed.*judge away 1/)
    expect(failure).toMatchObject({ cause: { message: expect.stringMatching(/^reward: .*judge away 1$/) as string } })
    // Nothing has ever worked: no need to wait for ten.
    await expect(toyRL({ dataset: always(sick) }).trainer.train()).rejects.toThrow(/1 groups in a row failed/)
  })

  it('leaves out members without a reward, and centres over the others', async () => {
    const builder: EnvGroupBuilder = {
      ...letterGroup('a'),
      computeGroupRewards: (list) =>
        list.map((_, k) => (k === 1 ? { reward: null, reason: 'no verdict' } : { reward: k })),
    }
    const { updates } = await collect({ dataset: always(builder), steps: 1 })
    const { credit, group } = updates[0]!.groups[0]!
    expect(group.members.map(({ slot }) => slot)).toEqual([0, 2, 3])
    expect(credit!.advantages.flat().reduce((sum, a) => sum + a, 0)).toBeCloseTo(0, 12)
    expect(updates[0]!.metrics['env/all/rollouts_excluded']).toBe(1)
    expect(updates[0]!.notices).toMatchObject([{ code: 'rollout_failure', message: /no verdict/ }])
  })
})

describe('the KL penalty', () => {
  it('check 56: from a trained start the KL to the reference is 0 at the first update, and grows', async () => {
    const client = new ToyClient()
    await toyRL({ client, steps: 5 }).trainer.train()
    expect(client.step).toBe(5)
    const { rows } = await collect({ client, steps: 6, klPenalty: { coef: 0.01 } })
    expect(Math.abs(rows[0]!['kl_policy_base']!)).toBeLessThan(1e-6)
    expect(rows[5]!['kl_policy_base']).toBeGreaterThan(1e-3)
  })

  it('refuses to go without the reference that it compares with', async () => {
    const { client } = toyRL()
    const { settings } = resolveRLConfig({ client, dataset: letters(), learningRate: 1, klPenalty: { coef: 1 } })
    const signal = new AbortController().signal
    const context = { client, settings, reference: null, totalSteps: 1, batches: 1, signal, trainSignal: signal }
    await expect(runRLUpdate([], initialRLState(0), context)).rejects.toThrow(/there is none: pass reference/)
  })

  it('holds the policy near, also against a reference of its own', async () => {
    const kl = async (coef: number, discount: number, reference?: SamplingClient) => {
      const own = reference && { reference }
      const { rows } = await collect({ steps: 20, learningRate: 0.15, klPenalty: { coef, discount }, ...own })
      return rows.slice(-5).reduce((sum, row) => sum + row['kl_policy_base']!, 0) / 5
    }
    const free = await kl(0, 0)
    expect(await kl(2, 0)).toBeLessThan(free / 2)
    expect(await kl(2, 1)).toBeLessThan(free / 2)
    const other = await new ToyClient({ seed: 4 }).snapshot()
    expect(await kl(0, 0, other)).not.toBe(free)
  })
})

describe('an abort', () => {
  const forever = () => new Promise<never>(() => {})
  const endless: RLDataset = { length: 1, getBatch: forever }

  it.each<[string, Parameters<typeof toyRL>[0]]>([
    ['a batch', { dataset: endless }],
    ['a batch that is sampled ahead', { dataset: endless, offPolicy: { maxStaleness: 1 } }],
    ['a data set', { dataset: forever, renderer: getRenderer('chatml', byteTokenizer()) }],
    ['the batch of an evaluator', { evaluators: [rolloutEvaluator('test', endless)] }],
  ])('does not wait for %s that never comes', async (_, part) => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('enough')), 20)
    await expect(toyRL(part).trainer.train({ signal: controller.signal })).rejects.toThrow('enough')
  })

  it('is told to the data set', async () => {
    const controller = new AbortController()
    const heard: unknown[] = []
    const dataset: RLDataset = {
      length: 1,
      getBatch: (_, { signal }) => {
        signal.addEventListener('abort', () => heard.push(signal.reason))
        controller.abort(new Error('enough'))
        return forever()
      },
    }
    await expect(toyRL({ dataset }).trainer.train({ signal: controller.signal })).rejects.toThrow('enough')
    expect(heard).toEqual([new Error('enough')])
  })
})

describe('evaluators', () => {
  it('run before the first update, every N, and once after the last, at their own temperature', async () => {
    const run = join(await temporaryFolder(), 'run')
    const client = new ToyClient()
    const temperatures = new Set<number | undefined>()
    client.onSample = ({ temperature }) => void temperatures.add(temperature)
    const steps: number[] = []
    const { trainer } = toyRL({
      client,
      run,
      steps: 5,
      temperature: 1,
      evaluators: [
        { name: 'own', evaluate: ({ step }) => (steps.push(step), Promise.resolve({ value: step })) },
        rolloutEvaluator('greedy', letters(), { temperature: 0 }),
        rolloutEvaluator('hot', [letterGroup('a')], { temperature: 1.5 }),
      ],
    })
    await trainer.train()
    expect(steps).toEqual([0, 2, 4, 5])
    expect([...temperatures].sort((a, b) => a! - b!)).toEqual([0, 1, 1.5])
    const rows = await readLines(join(run, 'evaluations.jsonl'))
    expect(rows.map((row) => row['own/value'])).toEqual([0, 2, 4, 5])
    expect(rows[0]).toMatchObject({ 'greedy/env/all/total_episodes': 24, 'hot/env/all/total_episodes': 4 })
    expect(() => toyRL({ evaluators: [rolloutEvaluator('x', []), rolloutEvaluator('x', [])] })).toThrow(
      /names of their own/,
    )
  })
})

describe('settings', () => {
  it.each<[string, object, RegExp]>([
    ['an unknown key', { learningrate: 1 }, /no option "learningrate": did you mean "learningRate"/],
    ['an unknown live part', { evaluator: [] }, /no option "evaluator": did you mean "evaluators"/],
    ['no client', { client: {} }, /client: expected a training client/],
    ['no data set', { dataset: [1] }, /dataset: expected a data set/],
    ['a loss without advantages', { loss: { name: 'cross_entropy' } }, /ignores advantages/],
    ['a renderer by name without a tokenizer', { renderer: 'chatml' }, /is a name and needs a tokenizer/],
    ['a reference without a penalty', { reference: { logprobs: () => {} } }, /klPenalty is off/],
    ['a staleness of 0', { offPolicy: { maxStaleness: 0 } }, /offPolicy.maxStaleness/],
  ])('refuses %s', (_, part, message) => {
    const { client, config } = toyRL()
    const broken = { ...config, client, ...part } as unknown as Parameters<typeof toyRL>[0]
    expect(() => toyRL(broken)).toThrow(message)
  })

  it.each<[string, object, RegExp]>([
    ['a misspelt limit', { limits: { maxTurn: 1 } }, /limits has no option "maxTurn": did you mean "maxTurns"/],
    ['a limit that is none', { limits: { maxTurns: 0 } }, /limits\.maxTurns/],
    ['an unknown strategy', { strategy: { kind: 'hope' } }, /expected fail-fast, retry or minimum-viable, got "hope"/],
    ['a misspelt option of a strategy', { strategy: { kind: 'retry', maxRetrys: 1 } }, /did you mean "maxRetries"/],
  ])('refuses %s before anything happens, in a run and in an evaluator', (_, part, message) => {
    expect(() => toyRL(part)).toThrow(ConfigError)
    expect(() => toyRL(part)).toThrow(message)
    expect(() => rolloutEvaluator('test', [], part)).toThrow(ConfigError)
    expect(() => rolloutEvaluator('test', [], part)).toThrow(message)
  })

  it('refuses evaluators whose options cannot be used', () => {
    expect(() => rolloutEvaluator('test', [], { temperature: -1 })).toThrow(/temperature/)
    expect(() => rolloutEvaluator('test', [], { temprature: 1 } as object)).toThrow(/did you mean "temperature"/)
  })

  it('refuses data sets that do not exist', async () => {
    await expect(toyRL({ dataset: always() }).trainer.train()).rejects.toThrow(/batch 0 of the data set has no groups/)
    await expect(toyRL({ dataset: () => letters() }).trainer.train()).rejects.toThrow(/pass renderer too/)
  })

  it('hands the renderer to a data set that asks for it', async () => {
    const tokenizer = byteTokenizer()
    let name = ''
    const { trainer } = toyRL({
      tokenizer,
      renderer: 'chatml',
      steps: 1,
      dataset: ({ renderer }) => {
        name = renderer.name
        return letters()
      },
    })
    await trainer.train()
    expect(name).toBe('chatml')
  })

  const weights = async (overrides: Parameters<typeof toyRL>[0]) => [
    ...(await collect({ steps: 4, ...overrides })).client.weights,
  ]
  const letters2 = letters({ turns: 2 })
  it.each<[string, Parameters<typeof toyRL>[0]]>([
    ['learningRate', { learningRate: 0.01 }],
    ['learningRateSchedule', { learningRateSchedule: 'linear' }],
    ['finalLearningRateFraction', { learningRateSchedule: 'cosine', finalLearningRateFraction: 0.5 }],
    ['warmupSteps', { warmupSteps: 2 }],
    ['adamBeta1', { adamBeta1: 0.5 }],
    ['adamBeta2', { adamBeta2: 0.5 }],
    ['adamEpsilon', { adamEpsilon: 0.1 }],
    ['weightDecay', { weightDecay: 0.1 }],
    ['maxGradNorm', { maxGradNorm: 1e-3, adamEpsilon: 0.1 }],
    ['seed', { seed: 1 }],
    ['temperature', { temperature: 0.5 }],
    ['topK', { topK: 2 }],
    ['topP', { topP: 0.5 }],
    ['maxTokens', { maxTokens: 2 }],
    ['limits', { limits: { maxTurns: 1 } }],
    ['advantageMode', { advantageMode: 'none' }],
    ['advantageNormalization', { advantageNormalization: true, adamEpsilon: 0.1 }],
    ['credit', { credit: 'turn' }],
    ['discount', { discount: 0.5 }],
    ['maskTruncated', { maskTruncated: true }],
    ['loss', { loss: { name: 'cispo', high: 1 }, numSubsteps: 3 }],
    ['numSubsteps', { numSubsteps: 3 }],
    ['klPenalty', { klPenalty: { coef: 1 } }],
    ['klPenalty.discount', { klPenalty: { coef: 1, discount: 1 } }],
  ])('%s changes what is learnt', async (name, part) => {
    const base: Parameters<typeof toyRL>[0] = { dataset: letters2 }
    if (name === 'finalLearningRateFraction') Object.assign(base, { learningRateSchedule: 'cosine' })
    if (['maxGradNorm', 'advantageNormalization'].includes(name)) Object.assign(base, { adamEpsilon: 0.1 })
    if (name === 'loss') Object.assign(base, { numSubsteps: 3 })
    if (name === 'klPenalty.discount') Object.assign(base, { klPenalty: { coef: 1 } })
    expect(await weights({ ...base, ...part })).not.toEqual(await weights(base))
  })

  it('numSubsteps makes that many optimiser steps with the clipped loss; computePostKl measures the move', async () => {
    const client = new ToyClient()
    const losses: string[] = []
    client.onForwardBackward = (_, { name }) => void losses.push(name)
    const { rows } = await collect({ client, steps: 1, numSubsteps: 3, computePostKl: true })
    expect(losses).toEqual(['ppo', 'ppo', 'ppo'])
    expect(client.step).toBe(3)
    expect(rows[0]!['optim/steps']).toBe(3)
    expect(rows[0]!['kl_pre_post_v2']).toBeGreaterThan(0)
    expect((await collect({ steps: 1 })).rows[0]).not.toHaveProperty('kl_pre_post_v2')
  })

  it('filter keeps groups out without calling them failed', async () => {
    const { rows } = await collect({ steps: 1, filter: ({ tags }) => (tags.includes('a') ? 'no a' : undefined) })
    expect(rows[0]).toMatchObject({ 'env/all/groups/filtered': 1, 'groups/trained': 1, 'rollout_errors/total': 0 })
  })

  it('collapse.stop ends a run whose reward falls from its peak', async () => {
    let paid = 0
    const builder: EnvGroupBuilder = {
      ...letterGroup('a', { maxTokens: 1 }),
      computeGroupRewards: (list) => {
        const level = ++paid <= 6 ? paid * 10 : 0
        return list.map((_, k) => ({ reward: level + k / 10 }))
      },
    }
    const dataset = always(builder)
    const collapse = { window: 2, drop: 0.5, stop: true }
    await expect(toyRL({ dataset, steps: 20, collapse }).trainer.train()).rejects.toThrow(
      /update 7: .*collapsed.*update 6; collapse.stop ends the run$/,
    )
    paid = 0
    const { updates } = await collect({ dataset, steps: 10, collapse: { ...collapse, stop: false } })
    expect(
      updates.filter(({ notices }) => notices.some(({ code }) => code === 'collapse')).map(({ step }) => step),
    ).toEqual([7])
  })
})

describe('rollouts.jsonl', () => {
  it('holds all that credit was computed from: groups read back earn the same', async () => {
    const run = join(await temporaryFolder(), 'run')
    const { updates } = await collect({ run, steps: 2, dataset: letters({ turns: 3 }), topK: 3 })
    const lines = (await readFile(join(run, 'rollouts.jsonl'), 'utf8')).trim().split('\n')
    const records = lines.map(parseGroupRecord)
    expect(records.map(({ step, group }) => [step, group])).toEqual([
      [1, 0],
      [1, 1],
      [2, 0],
      [2, 1],
    ])
    const turn = records[0]!.members[0]!.turns[0]!
    expect(turn.promptText).toBe('a')
    expect(turn.text).toHaveLength(turn.tokens.includes(0) ? turn.tokens.length + 4 : turn.tokens.length)
    expect(records[0]!.members[0]!.turns[1]!.kept).toBe(1 + turn.tokens.length)
    const groups = updates.flatMap((update) => update.groups)
    records.forEach((record, k) => expect(fromGroupRecord(record)).toEqual(groups[k]!.group))
    const options = { credit: 'trajectory', mode: 'mean', normalize: false, discount: 1 } as const
    const [again] = creditBatch([fromGroupRecord(records[0]!)], {
      ...options,
      versions: [0],
      maxStaleness: 0,
      keepConstant: false,
    })
    expect(again!.credit!.advantages).toEqual(records[0]!.members.map(({ advantages }) => advantages))
    expect(() => parseGroupRecord(JSON.stringify({ ...records[0], formatVersion: 2 }))).toThrow(/format version 2/)
    expect(() => parseGroupRecord('{')).toThrow(/expected a line/)
  })

  it('is not written where it is not wanted', async () => {
    const directory = join(await temporaryFolder(), 'run')
    await collect({ run: { directory, rollouts: false }, steps: 1 })
    expect(await readFile(join(directory, 'rollouts.jsonl'), 'utf8')).toBe('')
  })
})

it('exact() leaves every metric but those of time comparable between two runs', async () => {
  const [first, second] = [await collect({ steps: 3 }), await collect({ steps: 3 })]
  expect(first.rows.map(exact)).toEqual(second.rows.map(exact))
})
