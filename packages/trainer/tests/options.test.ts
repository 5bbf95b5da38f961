import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { magrpoConfigSchema, type MAGRPOConfig } from '../src/magrpo/config.js'
import { MAGRPOTrainer } from '../src/magrpo/trainer.js'
import type { PromptRow } from '../src/magrpo/types.js'
import { exact, inTurns, rows, temporaryFolder } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

/** Everything that a run shows to the outside, apart from times. */
async function observe(config: MAGRPOConfig): Promise<unknown> {
  const agents = [new ToyClient(), new ToyClient()]
  const requests: unknown[] = []
  agents[0]!.onSample = ({ prompt, seed: _seed, ...settings }) =>
    void requests.push({ ...settings, prompt: [...prompt] })
  if (config.maxSamplerGap !== undefined) {
    agents[0]!.onForwardBackward = () => {
      agents[0]!.weights = agents[0]!.weights.map((w, i) => w + (i % 3))
    }
  }
  const logged: unknown[] = []
  const run = config.checkpointEvery === undefined ? null : join(await temporaryFolder(), 'run')
  let call = 0
  let reward = 0
  const failing = config.maxConsecutiveRewardFailures !== undefined
  const slow = config.rewardTimeoutSeconds !== undefined
  const slowTransition = config.transitionTimeoutSeconds !== undefined
  const trainer = new MAGRPOTrainer<PromptRow>({
    agents,
    trainDataset: rows(3),
    evalDataset: rows(3),
    onNotice: () => {},
    rewardFunc: async ({ completions }) => {
      call++
      if (failing && call > 6 && call <= 8) throw new Error('away')
      if (slow && call > 6) await new Promise((resolve) => setTimeout(resolve, 20))
      // Level for two updates after the evaluation of three rows, then a gain far above the noise, then a slow fall.
      if (config.collapse) reward = call < 6 ? 0 : 1000 - 10 * (call - 6)
      return completions[0]!.map((text, k) => reward + text.length + completions[1]![k]!.split('a').length)
    },
    ...inTurns(config.numTurns, async ({ agentCompletions }: { agentCompletions: readonly string[] }) => {
      if (slowTransition) await new Promise((resolve) => setTimeout(resolve, 20))
      return agentCompletions.map((text) => `a${text}`)
    }),
    formatters: ({ prompt }) => `b${prompt as string}`,
    trackers: [{ start: () => {}, log: (row) => logged.push(exact(row)), finish: () => Promise.resolve() }],
    ...(run !== null && { run }),
    config: { numTrainEpochs: 2, maxNewTokens: 5, agentLearningRate: 0.05, collapse: null, ...config },
  })
  const seen: unknown[] = []
  let failure: string | null = null
  try {
    for await (const { metrics, notices, isLogged } of trainer.updates()) {
      seen.push(
        exact(metrics),
        isLogged,
        notices.map(({ code }) => code),
      )
    }
  } catch (error) {
    failure = String(error)
  }
  const checkpoints = run === null ? [] : (await readdir(join(run, 'checkpoints'))).sort()
  const concurrent = agents.map(({ calls }) => calls.concurrent)
  return {
    seen,
    logged,
    requests,
    failure,
    checkpoints,
    concurrent,
    weights: agents.map(({ weights }) => [...weights]),
  }
}

/** For each option: two configs that differ in it alone. */
const twoTurns = { numTurns: 2, numGenerations: 2 }
const PAIRS: Record<keyof MAGRPOConfig, [MAGRPOConfig, MAGRPOConfig]> = {
  numTrainEpochs: [{}, { numTrainEpochs: 1 }],
  maxSteps: [{}, { maxSteps: 2 }],
  promptsPerUpdate: [{}, { promptsPerUpdate: 2 }],
  order: [{ order: 'fixed' }, { order: 'shuffled' }],
  seed: [{}, { seed: 1 }],
  numGenerations: [{}, { numGenerations: 5 }],
  numTurns: [{}, { numTurns: 2 }],
  discount: [twoTurns, { ...twoTurns, discount: 0.5 }],
  jointMode: [{}, { jointMode: 'cross' }],
  maxJointAnswers: [{ jointMode: 'cross' }, { jointMode: 'cross', maxJointAnswers: 15 }],
  earlyTermination: [twoTurns, { ...twoTurns, earlyTermination: { threshold: 3 } }],
  earlyTerminationThreshold: [twoTurns, { ...twoTurns, earlyTerminationThreshold: 3 }],
  externalPromptPassthrough: [twoTurns, { ...twoTurns, externalPromptPassthrough: true }],
  maxNewTokens: [{}, { maxNewTokens: 4 }],
  temperature: [{}, { temperature: 0.5 }],
  topP: [{}, { topP: 0.5 }],
  topK: [{}, { topK: 2 }],
  stop: [{}, { stop: ['a'] }],
  perAgent: [{}, { perAgent: [{ maxNewTokens: 2 }] }],
  advantageMode: [{}, { advantageMode: 'rloo' }],
  advantageNormalization: [{ maxGradNorm: null }, { maxGradNorm: null, advantageNormalization: false }],
  raeDecay: [{ advantageMode: 'rae' }, { advantageMode: 'rae', raeDecay: 0.5 }],
  raeInitial: [{ advantageMode: 'rae' }, { advantageMode: 'rae', raeInitial: 3 }],
  loss: [{}, { loss: { name: 'importance_sampling', normalise: 'tokenMean' } }],
  referenceKl: [{}, { referenceKl: { coef: 1 } }],
  rolloutBufferSize: [twoTurns, { ...twoTurns, rolloutBufferSize: 2 }],
  trainBatchSize: [
    { ...twoTurns, rolloutBufferSize: 3 },
    { ...twoTurns, rolloutBufferSize: 3, trainBatchSize: 1 },
  ],
  agentLearningRate: [{}, { agentLearningRate: 0.01 }],
  learningRateSchedule: [{}, { learningRateSchedule: 'linear' }],
  warmupSteps: [{}, { warmupSteps: 3 }],
  finalLearningRateFraction: [
    { learningRateSchedule: 'cosine' },
    { learningRateSchedule: 'cosine', finalLearningRateFraction: 0.5 },
  ],
  adamBeta1: [{}, { adamBeta1: 0.5 }],
  adamBeta2: [{}, { adamBeta2: 0.5 }],
  adamEpsilon: [{}, { adamEpsilon: 0.1 }],
  weightDecay: [{}, { weightDecay: 0.1 }],
  maxGradNorm: [{}, { maxGradNorm: 0.01 }],
  evalInterval: [{}, { evalInterval: 2 }],
  evalNumSamples: [{}, { evalNumSamples: 1 }],
  evalGenerations: [{}, { evalGenerations: 2 }],
  evalTemperature: [{}, { evalTemperature: 0 }],
  loggingSteps: [{}, { loggingSteps: 4 }],
  checkpointEvery: [{ checkpointEvery: 0 }, { checkpointEvery: 2 }],
  keepCheckpoints: [{ checkpointEvery: 1 }, { checkpointEvery: 1, keepCheckpoints: 4 }],
  rewardTimeoutSeconds: [{}, { rewardTimeoutSeconds: 0.005 }],
  transitionTimeoutSeconds: [twoTurns, { ...twoTurns, transitionTimeoutSeconds: 0.005 }],
  maxConsecutiveRewardFailures: [{ maxConsecutiveRewardFailures: 2 }, { maxConsecutiveRewardFailures: 5 }],
  maxSamplerGap: [{ maxSamplerGap: 0.1 }, { maxSamplerGap: null }],
  collapse: [{ collapse: { window: 2, stop: true, drop: 1 } }, { collapse: { window: 2, stop: true, drop: 1e-3 } }],
  abortGraceSeconds: [{}, {}],
  maxConcurrentPolicies: [{}, {}],
}

/** Options whose effect is timing; `agents.test.ts` and `failures.test.ts` show it. */
const TIMING: (keyof MAGRPOConfig)[] = ['abortGraceSeconds', 'maxConcurrentPolicies']

describe('check 57: every option changes something', () => {
  it('and every option is in the list', () => {
    expect(Object.keys(PAIRS).sort()).toEqual(Object.keys(magrpoConfigSchema.shape).sort())
  })

  it.each((Object.keys(PAIRS) as (keyof MAGRPOConfig)[]).filter((name) => !TIMING.includes(name)))(
    '%s',
    async (name) => {
      const [a, b] = PAIRS[name]
      let first: unknown
      let second: unknown
      try {
        first = await observe(a)
        second = await observe(b)
      } catch (error) {
        second = String(error)
      }
      expect(second).not.toEqual(first)
    },
  )
})
