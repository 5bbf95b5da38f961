import { describe, expect, it } from 'vitest'
import { allFormats, standInRenderer } from '../tests/formats.js'
import { InvalidMessagesError } from './errors.js'
import { assistant, system, user, type Message } from './messages.js'
import type { TrainOnWhat } from './renderer.js'

const byName = (name: string) => standInRenderer(allFormats.find((format) => format.name === name)!)
const messages: Message[] = [system('\nS'), user('A'), assistant('B'), user('C'), assistant('D'), assistant('E')]

/** The trained text, each stretch in brackets. */
function trained(name: string, trainOn: TrainOnWhat, of: readonly Message[] = messages): string {
  const renderer = byName(name)
  const { tokens, weights } = renderer.supervisedExample(of, { trainOn })
  let marked = ''
  let run: number[] = []
  tokens.forEach((id, k) => {
    if (weights[k] === 1) run.push(id)
    if (run.length > 0 && (weights[k] !== 1 || k === tokens.length - 1)) {
      marked += `[${renderer.tokenizer.decode(run)}]`
      run = []
    }
  })
  return marked
}

describe('which tokens are trained', () => {
  it.each([
    ['last_assistant_message', '[E<|im_end|>]'],
    ['last_assistant_turn', '[D<|im_end|>][E<|im_end|>]'],
    ['all_assistant_messages', '[B<|im_end|>][D<|im_end|>][E<|im_end|>]'],
    // The line break of the header and the first of the text are one token: it counts to the header.
    ['all_user_and_system_messages', '[S<|im_end|>][A<|im_end|>][C<|im_end|>]'],
    ['all_messages', '[S<|im_end|>][A<|im_end|>][B<|im_end|>][C<|im_end|>][D<|im_end|>][E<|im_end|>]'],
  ] as const)('%s', (mode, expected) => {
    expect(trained('chatml', mode)).toBe(expected)
  })

  it('all_tokens trains everything but BOS', () => {
    const renderer = byName('llama3')
    const { weights } = renderer.supervisedExample(messages, { trainOn: 'all_tokens' })
    expect([weights[0], Math.min(...weights.slice(1))]).toEqual([0, 1])
    const { weights: roleColon } = byName('role_colon').supervisedExample(messages, { trainOn: 'all_tokens' })
    expect([roleColon[0], Math.min(...roleColon.slice(1))]).toEqual([0, 1])
  })

  it('customized trains what is marked', () => {
    const marked = messages.map((message, k) => ({ ...message, trainable: k === 2 || k === 3 }))
    expect(trained('chatml', 'customized', marked)).toBe('[B<|im_end|>][C<|im_end|>]')
    expect(() => trained('chatml', 'customized')).toThrow('messages.0.trainable')
    expect(() => trained('chatml', 'all_messages', marked)).toThrow("only for trainOn: 'customized'")
  })

  it('never trains what the prompt already gives, in any mode', () => {
    const example = byName('qwen3_disable_thinking')
    for (const trainOn of ['last_assistant_message', 'last_assistant_turn', 'all_assistant_messages'] as const) {
      const { tokens, weights } = example.supervisedExample([user('a'), assistant('b')], { trainOn })
      const text = example.tokenizer.decode(tokens.filter((_, k) => weights[k] === 1))
      expect(text).toBe('b<|im_end|>')
    }
  })

  it('trains the stop string of a text format, and the blank line of turns in history', () => {
    expect(trained('role_colon', 'all_assistant_messages', messages.slice(0, 5))).toBe('[ B\n\n][ D\n\nUser:]')
  })

  it('leaves the default system message of a format alone', () => {
    expect(trained('chatml', 'all_messages', [user('C'), assistant('D')])).toBe('[C<|im_end|>][D<|im_end|>]')
  })
})

describe('modes that do not fit', () => {
  it.each([
    ['last_assistant_message', [user('a')], 'the last message to be'],
    ['last_assistant_turn', [user('a'), assistant('b'), user('c')], 'after the last user message'],
    ['all_assistant_messages', [user('a')], 'an assistant message'],
  ] as const)('%s', (trainOn, of, problem) => {
    const make = () => byName('chatml').supervisedExample(of, { trainOn })
    expect(make).toThrow(InvalidMessagesError)
    expect(make).toThrow(problem)
  })
  it('an unknown mode is answered with the nearest', () => {
    const trainOn = 'all_assistant_message' as TrainOnWhat
    expect(() => byName('chatml').supervisedExample(messages, { trainOn })).toThrow(
      'did you mean "all_assistant_messages"',
    )
  })
  it('several examples are for assistant modes', () => {
    expect(() => byName('chatml').supervisedExamples(messages, { trainOn: 'all_messages' })).toThrow(
      'three assistant modes',
    )
  })
})

describe('several examples', () => {
  it('are one where history extends, with the weights of all turns', () => {
    const renderer = byName('chatml')
    const [example, ...more] = renderer.supervisedExamples(messages, { trainOn: 'all_assistant_messages' })
    expect(more).toEqual([])
    expect(example).toEqual(renderer.supervisedExample(messages, { trainOn: 'all_assistant_messages' }))
  })
})
