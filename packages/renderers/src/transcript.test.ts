import { describe, expect, it } from 'vitest'
import { allFormats, standInRenderer } from '../tests/formats.js'
import { InvalidMessagesError, UnsupportedConversationError } from './errors.js'
import { assistant, system, text, thinking, toolCall, toolResult, user, type Message } from './messages.js'
import type { Renderer } from './renderer.js'
import { createTranscript } from './transcript.js'

const byName = (name: string) => standInRenderer(allFormats.find((format) => format.name === name)!)
const answer = (renderer: Renderer, said: string) => [
  ...renderer.tokenizer.encode(said),
  renderer.stop.find((stop) => typeof stop === 'number')!,
]

/** A transcript after its first answer. */
function begun(name: string, messages: Message[] = [system('S'), user('a')], ids?: (renderer: Renderer) => number[]) {
  const renderer = byName(name)
  const transcript = createTranscript(renderer)
  const prompt = transcript.prompt(messages)
  const sampled = ids ? ids(renderer) : answer(renderer, 'b')
  const { message } = transcript.sampled(sampled)
  return { renderer, transcript, before: [...prompt, ...sampled], messages: [...messages, message] }
}

describe('a transcript', () => {
  it.each(allFormats.map(({ name }) => name).filter((name) => name !== 'role_colon'))('only grows, %s', (name) => {
    const said = name.startsWith('gpt_oss') ? '' : 'b'
    const { transcript, before, messages } = begun(name, [system('S'), user('a')], (renderer) => answer(renderer, said))
    const prompt = transcript.prompt([...messages, user('c')])
    expect(Array.from(prompt.slice(0, before.length))).toEqual(before)
    expect(transcript.breaks).toEqual([])
  })

  it.each([
    ['system_changed', (m: Message[]) => [system('T'), ...m.slice(1), user('c')]],
    ['rewritten', (m: Message[]) => [m[0]!, user('A'), ...m.slice(2), user('c')]],
    ['rewritten', (m: Message[]) => [...m.slice(0, 2), assistant('B'), user('c')]],
    ['truncated', (m: Message[]) => m.slice(0, 2)],
    ['truncated', (m: Message[]) => [m[0]!, m[2]!]],
  ] as const)('counts a break when the conversation does not grow: %s', (reason, change) => {
    const { renderer, transcript, messages } = begun('chatml')
    const changed = change(messages)
    expect([...transcript.prompt(changed)]).toEqual([...renderer.generationPrompt(changed)])
    expect(transcript.breaks).toEqual([{ turn: 1, reason }])
  })

  it('goes on after an answer that was cut off, closing it', () => {
    const { renderer, transcript, before, messages } = begun('chatml', [user('a')], ({ tokenizer }) =>
      tokenizer.encode('cut'),
    )
    const prompt = transcript.prompt([...messages, user('c')])
    expect(Array.from(prompt.slice(0, before.length))).toEqual(before)
    expect(renderer.tokenizer.decode(prompt.slice(before.length))).toBe(
      '<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n',
    )
  })

  it('goes on in text formats from the stop string that the model wrote itself', () => {
    const stopped = (end: string) => (renderer: Renderer) => renderer.tokenizer.encode(` b${end}`)
    for (const end of ['\n\nUser:', '\n\nUser: ']) {
      const { renderer, transcript, messages } = begun('role_colon', [user('a')], stopped(end))
      const prompt = transcript.prompt([...messages, user('c')])
      expect(renderer.tokenizer.decode(prompt)).toBe('<s>User: a\n\nAssistant: b\n\nUser: c\n\nAssistant:')
      expect(transcript.breaks).toEqual([])
    }
    const { transcript, messages } = begun('role_colon', [user('a')], stopped('\n\nUser:'))
    transcript.prompt([...messages, system('now')])
    expect(transcript.breaks).toEqual([{ turn: 1, reason: 'unbridgeable' }])
  })

  it("tells retokenised text and other renders apart with history 'template'", () => {
    const renderer = byName('chatml')
    const transcript = createTranscript(renderer, { history: 'template' })
    transcript.prompt([user('a')])
    const bytes = ['1', '2'].flatMap((digit) => renderer.tokenizer.encode(digit))
    const { message } = transcript.sampled([...bytes, renderer.stop[0] as number])
    transcript.prompt([user('a'), message, user('c')])
    expect(transcript.breaks).toEqual([{ turn: 1, reason: 'retokenised' }])
  })

  it('carries tools and prefill, and looks back for the name of a called tool', () => {
    const renderer = byName('gpt_oss_low')
    const tools = [{ name: 'f', description: 'F.', parameters: {} }]
    const transcript = createTranscript(renderer, { tools })
    const prompt = transcript.prompt([user('a')])
    const call = renderer.supervisedExample([user('a'), assistant([thinking('t'), toolCall('f', '{}')])], { tools })
    const { message } = transcript.sampled(call.tokens.slice(prompt.length))
    const next = transcript.prompt([user('a'), message, toolResult('6')])
    expect(renderer.tokenizer.decode(next)).toMatch(
      /<\|call\|><\|start\|>functions\.f to=assistant.*"6"<\|end\|><\|start\|>assistant$/,
    )
    const prefilled = createTranscript(byName('chatml'), { prefill: 'Sure' })
    prefilled.prompt([user('a')])
    expect(prefilled.sampled(answer(byName('chatml'), ', b')).message).toEqual(assistant('Sure, b'))
  })

  it('refuses options that it does not know', () => {
    const renderer = byName('chatml')
    const unknown = (options: object) => [
      () => createTranscript(renderer, { ...options }),
      () => renderer.generationPrompt([user('a')], { ...options }),
      () => renderer.supervisedExample([user('a'), assistant('b')], { ...options }),
      () => renderer.supervisedExamples([user('a'), assistant('b')], { ...options }),
      () => renderer.bridge([1], [user('a')], { ...options }),
    ]
    for (const call of unknown({ tool: [] })) expect(call).toThrow('did you mean "tools"')
    expect(() => renderer.parse([1], { ...({ prefil: 'x' } as object) })).toThrow('did you mean "prefill"')
  })

  it('wants prompts and samples in turn', () => {
    const transcript = createTranscript(byName('chatml'))
    expect(() => transcript.sampled([1])).toThrow(InvalidMessagesError)
    expect(() => createTranscript(byName('chatml'), { history: 'x' as 'sampled' })).toThrow("'sampled' or 'template'")
  })
})

describe('bridge', () => {
  it('refuses what is no continuation', () => {
    const { renderer, before, messages } = begun('chatml')
    expect(() => renderer.bridge(before, [])).toThrow('at least one new message')
    expect(() => renderer.bridge(before, [assistant('x')])).toThrow('come from outside')
    expect(() => renderer.bridge(before, [user('x')], { history: messages.slice(0, 2) })).toThrow(
      'to end with the assistant',
    )
    expect(() => byName('gemma3').bridge([1], [system('x')])).toThrow(UnsupportedConversationError)
  })
  it('appends a prefill', () => {
    const { renderer, before } = begun('chatml')
    const bridged = renderer.bridge(before, [user('c')], { prefill: 'Yes' })
    expect(renderer.tokenizer.decode(bridged)).toMatch(/assistant\nYes$/)
    expect(renderer.parse(answer(renderer, '!'), { prefill: 'Yes' }).message).toEqual(assistant('Yes!'))
  })
  it('knows from the prompt whether the answer was begun there', () => {
    const renderer = byName('deepseekv3_thinking')
    const history = [user('a'), assistant([toolCall('f', '{}')])]
    const afterTool = renderer.generationPrompt([...history, toolResult('1')])
    const ids = answer(renderer, 'plain')
    expect(renderer.parse(ids, { prompt: afterTool }).message).toEqual(assistant('plain'))
    const asked = renderer.generationPrompt([user('a')])
    expect(renderer.parse(ids, { prompt: asked }).message.content).toEqual([thinking('plain')])
    expect(renderer.parse(ids).message.content).not.toEqual([text('plain')])
  })
})
