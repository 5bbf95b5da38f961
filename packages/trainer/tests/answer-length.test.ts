import { describe, expect, it } from 'vitest'
import { ConfigError } from '../src/errors.js'
import { IACTrainer, MAACTrainer } from '../src/actor-critic/index.js'
import { frozenAgent } from '../src/magrpo/agents.js'
import { MADPOTrainer } from '../src/preference/index.js'
import { letters, toyRL } from './support/rl.js'
import { countA, rows, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'
import { ToyCritic } from './support/toy-critic.js'

const client = () => new ToyClient({ contextLength: 20 })
const task = { trainDataset: rows(2), rewardFunc: countA }

/** Every trainer that samples, with a limit on its answers, on policies with a context of 20 tokens. */
const trainers: [string, (tokens: number) => unknown][] = [
  ['MAGRPO', (maxNewTokens) => toyTrainer({ agents: [client(), client()], config: { maxNewTokens } })],
  [
    'IAC',
    (maxNewTokens) =>
      new IACTrainer({ ...task, agents: [client()], critics: [new ToyCritic()], config: { maxNewTokens } }),
  ],
  [
    'MAAC',
    (maxNewTokens) =>
      new MAACTrainer({ ...task, agents: [client(), client()], critic: new ToyCritic(), config: { maxNewTokens } }),
  ],
  ['MADPO', (maxNewTokens) => new MADPOTrainer({ ...task, agents: [client()], config: { maxNewTokens } })],
  ['trainRL', (maxTokens) => toyRL({ client: client(), maxTokens })],
]

describe('answers that no prompt leaves room for', () => {
  it.each(trainers)('%s refuses them when it is made, with what came and what would do', (name, make) => {
    const option = name === 'trainRL' ? 'maxTokens' : 'config.maxNewTokens'
    for (const tokens of [20, 100_000]) {
      expect(() => make(tokens)).toThrow(ConfigError)
      expect(() => make(tokens)).toThrow(
        new RegExp(
          `${option}: expected at most 19, since the context of .* has 20 tokens.*got ${tokens}: ask for fewer`,
        ),
      )
    }
    expect(() => make(19)).not.toThrow()
  })

  it('names the agent whose own setting or context it is, frozen ones too', async () => {
    const own = () => toyTrainer({ agents: [client(), client()], config: { perAgent: [null, { maxNewTokens: 30 }] } })
    expect(own).toThrow(/config.perAgent\[1\].maxNewTokens: expected at most 19, since the context of agents\[1\]/)
    const snapshot = await client().snapshot()
    const frozen = () =>
      toyTrainer({
        agents: [new ToyClient(), frozenAgent(snapshot, { tokenizer: client().tokenizer })] as never,
        config: { maxNewTokens: 30 },
      })
    expect(frozen).toThrow(/config.maxNewTokens: expected at most 19, since the context of agents\[1\]/)
  })

  it('lets answers that only some prompts leave no room for end where the context does', async () => {
    const agents = [client(), client()]
    const { trainer } = toyTrainer({ agents, trainDataset: [{ prompt: 'a'.repeat(15) }], config: { maxNewTokens: 19 } })
    for await (const { nodes } of trainer.updates()) {
      const lengths = nodes[0]!.node.completions.flat().map(({ tokens }) => tokens.length)
      expect(Math.max(...lengths)).toBeLessThanOrEqual(5)
    }
    await expect(
      toyRL({ client: client(), maxTokens: 19, dataset: letters(), steps: 1 }).trainer.train(),
    ).resolves.toBeDefined()
  })
})
