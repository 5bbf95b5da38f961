import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { JointRewardArgs } from '@selfplay/rewards'
import { fromRecords, parseRecord } from '../src/magrpo/record.js'
import type { CentralizedAdapter } from '../src/magrpo/roles.js'
import type { PromptRow, TransitionArgs } from '../src/magrpo/types.js'
import { readLines, temporaryFolder, toyTrainer } from './support/setup.js'
import { ToyClient } from './support/toy-client.js'

/** Roles are separated by the first space; without one a completion cannot be split. */
const adapter: CentralizedAdapter<PromptRow> = {
  numRoles: 2,
  buildPrompt: ({ prompts, turn }) => `${prompts.map((prompt) => prompt as string).join(' ')}${turn === 1 ? 'e' : 'f'}`,
  parseCompletion: ({ text }) => {
    const at = text.indexOf(' ')
    if (at < 0) throw new Error('one answer only')
    return [text.slice(0, at), text.slice(at + 1)]
  },
}

describe('one policy for all roles', () => {
  it('shows callbacks the roles and the policy one prompt, over two turns', async () => {
    const folder = join(await temporaryFolder(), 'run')
    const judged: JointRewardArgs<PromptRow>[] = []
    const asked: TransitionArgs<PromptRow>[] = []
    const client = new ToyClient()
    const { trainer } = toyTrainer({
      agents: [client],
      centralized: adapter,
      trainDataset: [{ prompt: 'b' }],
      formatters: [({ prompt }) => `c${prompt as string}`, ({ prompt }) => `d${prompt as string}`],
      externalTransition: (args) => {
        asked.push(args)
        return ['g', 'h']
      },
      rewardFunc: (args) => {
        judged.push(args)
        return args.completions[0]!.map((first, k) => first.length - args.completions[1]![k]!.length)
      },
      run: folder,
      config: { numTurns: 2, numGenerations: 8, maxSteps: 1 },
    })
    for await (const { nodes, metrics } of trainer.updates()) {
      const [root, child] = nodes
      expect(root!.node.prompts.map(({ text }) => text)).toEqual(['cb dbe'])
      expect(child!.node.prompts.map(({ text }) => text)).toEqual(['cg dhf'])
      const texts = root!.node.completions[0]!.map(({ text }) => text)
      const unsplit = texts.filter((text) => !text.includes(' ')).length
      expect(metrics['turn_1/split_failures']).toBe(unsplit / 8)
      expect(judged[0]!.completions).toEqual(
        [0, 1].map((role) => texts.map((text) => (text.includes(' ') ? text.split(/ (.*)/s)[role]! : ''))),
      )
    }
    expect(judged[0]!.prompts).toEqual(['cb', 'db'])
    expect(judged[1]!.prompts).toEqual(['cg', 'dh'])
    expect(judged[1]!.history.responses).toEqual([0, 1].map((role) => [judged[0]!.completions[role]![0]]))
    expect(asked).toHaveLength(8)
    expect(asked[0]).toMatchObject({ numAgents: 2, promptHistory: [['cb'], ['db']] })
    expect(client.step).toBe(1)
    const records = (await readLines(join(folder, 'rollouts.jsonl'))).map((line) => parseRecord(JSON.stringify(line)))
    const [root] = fromRecords(records)
    expect(root!.answers[1]!.child!.responseHistory).toEqual([0, 1].map((role) => [judged[0]!.completions[role]![1]]))
  })

  it('needs exactly one agent', () => {
    expect(() => toyTrainer({ centralized: adapter })).toThrow(/exactly one agent, got 2/)
    expect(() => toyTrainer({ agents: [new ToyClient()], centralized: { ...adapter, numRoles: 0 } })).toThrow(
      /numRoles/,
    )
  })
})
