import { describe, expect, it } from 'vitest'
import { InvalidMessagesError } from './errors.js'
import {
  assistant,
  checkMessages,
  checkTools,
  contentOf,
  partsOf,
  sameMessage,
  text,
  textOf,
  thinking,
  thinkingOf,
  toolCall,
  toolCallsOf,
  toolResult,
  unparsedToolCallsOf,
  user,
  type Message,
} from './messages.js'

const full = assistant([
  thinking('a'),
  thinking('b'),
  text(''),
  text('c'),
  text('d'),
  toolCall('f', { x: 1 }, 'id'),
  { type: 'unparsed_tool_call', rawText: '{', error: 'broken' },
])

describe('content', () => {
  it('has one canonical form', () => {
    expect(partsOf(full).map(({ type }) => type)).toEqual(['thinking', 'text', 'tool_call', 'unparsed_tool_call'])
    expect([textOf(full), thinkingOf(full)]).toEqual(['cd', 'ab'])
    expect(toolCallsOf(full)).toEqual([{ type: 'tool_call', id: 'id', name: 'f', arguments: '{"x":1}' }])
    expect(unparsedToolCallsOf(full)).toHaveLength(1)
    expect(contentOf([text('a'), text('b')])).toBe('ab')
    expect(contentOf([])).toBe('')
    expect(contentOf([thinking('a')])).toEqual([thinking('a')])
  })
  it('is compared by what it says', () => {
    expect(sameMessage(assistant('ab'), assistant([text('a'), text('b')]))).toBe(true)
    expect(sameMessage({ ...user('a'), trainable: true }, user('a'))).toBe(true)
    const others: Message[] = [
      user('x'),
      assistant('x'),
      toolResult('x', { name: 'f' }),
      toolResult('x', { toolCallId: '1' }),
    ]
    others.forEach((a, i) => others.forEach((b, k) => expect(sameMessage(a, b)).toBe(i === k)))
    expect(sameMessage(assistant([toolCall('f', '{}')]), assistant([toolCall('f', '{"a":1}')]))).toBe(false)
  })
})

describe('checkMessages', () => {
  it.each([
    [[{ role: 'player', content: 'x' }], 'messages.0.role'],
    [[user('a'), { role: 'user' }], 'messages.1.content'],
    [[{ ...user('a'), tool_calls: [] }], 'tool_calls'],
    [[assistant([{ type: 'text', value: 'x' } as never])], 'messages.0.content'],
    [[assistant([toolCall('two words', '{}')])], 'white space'],
    [[assistant([toolCall('f', '[1]')])], 'JSON text of an object'],
    ['x', 'expected a list'],
  ])('refuses %j', (messages, problem) => {
    expect(() => checkMessages(messages as Message[])).toThrow(InvalidMessagesError)
    expect(() => checkMessages(messages as Message[])).toThrow(problem)
  })
  it('returns good ones as they are', () => {
    const messages = [user('a'), full]
    expect(checkMessages(messages)).toBe(messages)
  })
})

it('checkTools names what is wrong', () => {
  expect(() => checkTools([{ name: '', description: '', parameters: {} }])).toThrow('tools.0.name')
})
