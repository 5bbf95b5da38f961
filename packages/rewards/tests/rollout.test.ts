import {
  EnvFromMessageEnv,
  type EnvGroupBuilder,
  type Message,
  type MessageEnv,
  sampledTokens,
  textOf,
} from '@selfplay/env'
import * as env from '@selfplay/env'
import { describe, expect, it } from 'vitest'
import { PairwisePreferenceGroupBuilder, certain, judgeEach, pairwise, weightedSum } from '../src/index.js'
import { rendererOf } from './support.js'

const renderer = rendererOf()
const prompt: Message[] = [{ role: 'user', content: 'Invent a name for a bakery.' }]
const names = ['Rye', 'Upper Crust', 'Loaf', 'Flour Power']

class NamingGame implements MessageEnv {
  initialObservation() {
    return prompt
  }

  step() {
    return { reward: 0, episodeDone: true, nextMessages: [] }
  }
}
const makeEnv = () => new EnvFromMessageEnv({ renderer, messageEnv: new NamingGame(), maxGenerationTokens: 64 })

/** Samples the names one after the other. */
const namesSampler = () => {
  let next = 0
  return ({ prompt: ids }: { readonly prompt: Int32Array }) => {
    const content = names[next++ % names.length]!
    const { tokens } = renderer.supervisedExample([...prompt, { role: 'assistant', content }])
    return { tokens: tokens.subarray(ids.length), stopReason: 'stop' as const }
  }
}
const play = async (builder: EnvGroupBuilder) => await env.runGroup(builder, { sample: namesSampler(), concurrency: 1 })

describe('rewards in a rollout of @selfplay/env', () => {
  it('compares the members of a group pairwise', async () => {
    const group = await play({
      makeEnvs: () => names.map(makeEnv),
      computeGroupRewards: pairwise((a, b) => Math.sign(sampledTokens(a) - sampledTokens(b))),
      loggingTags: () => ['naming_game'],
    })
    expect(group.status).toBe('complete')
    expect(group.members.map(({ reward }) => reward)).toEqual([-3 / 6, 2 / 6, -1 / 6, 2 / 6])
    expect(group.members[1]!.metrics).toMatchObject({ win_score: 2 / 6, matches: 3 })
  })

  it('lets a judge compare them', async () => {
    const preferenceModel = {
      compare: async ({
        completionA,
        completionB,
      }: {
        completionA: readonly Message[]
        completionB: readonly Message[]
      }) => {
        const [a, b] = [completionA, completionB].map(([message]) => textOf(message!).length)
        return certain(a === b ? 'Tie' : a! > b! ? 'A' : 'B')
      },
    }
    const group = await play(
      new PairwisePreferenceGroupBuilder({ prompt, renderer, preferenceModel, numEnvs: 4, makeEnv }),
    )
    expect(group.status).toBe('complete')
    expect(group.members.map(({ reward }) => reward)).toEqual([-1, 2 / 3, -1 / 3, 2 / 3])
    expect(group.tags).toEqual(['pair_pref'])
  })

  it('leaves out the member whose reward throws; the others have theirs, with its parts as metrics', async () => {
    const score = weightedSum({ length: { weight: 1, score: (text: string) => text.length } })
    const group = await play({
      makeEnvs: () => names.map(makeEnv),
      computeGroupRewards: judgeEach(async ({ transitions }, { slot, signal }) => {
        if (slot === 2) throw new Error('no judge')
        return await score(textOf(transitions[0]!.message!), { signal })
      }),
    })
    expect(group.members.map(({ slot, reward }) => [slot, reward])).toEqual([
      [0, 3],
      [1, 11],
      [3, 11],
    ])
    expect(group.members[0]!.metrics).toMatchObject({ length: 3 })
    expect(group.excluded).toMatchObject([{ slot: 2, reason: 'Error: no judge' }])
  })
})
