import { describe, expect, it } from 'vitest'
import { allFormats, standInRenderer } from '../../tests/formats.js'
import { assistant, text, thinking, toolCall, user } from '../messages.js'
import type { Renderer } from '../renderer.js'
import { UnsupportedConversationError } from '../errors.js'

const byName = (name: string) => standInRenderer(allFormats.find((format) => format.name === name)!)

/** Ids of a response written with markers in their spelling, as a model would sample them. */
function sampled(renderer: Renderer, response: string): number[] {
  const { tokenizer } = renderer
  const spellings = [...(tokenizer.controlIds ?? [])].map((id) => tokenizer.decode([id]))
  const pattern = new RegExp(`(${spellings.map((s) => s.replaceAll(/[|\\[\]]/g, '\\$&')).join('|')})`)
  return response.split(pattern).flatMap((piece) => {
    const id = spellings.includes(piece) ? tokenizer.tokenId(piece) : undefined
    return id === undefined ? tokenizer.encode(piece) : [id]
  })
}
const parse = (name: string, response: string) => {
  const renderer = byName(name)
  return renderer.parse(sampled(renderer, response))
}

describe('inline bodies', () => {
  it.each([
    ['{"name": "f", "arguments": {"a": 1.0}}', { type: 'tool_call', name: 'f', arguments: '{"a": 1.0}' }],
    ['  {"arguments":{},\n"name":"f","id":"7"} ', { type: 'tool_call', name: 'f', arguments: '{}', id: '7' }],
    [
      '{"name": "f", "arguments": {',
      { type: 'unparsed_tool_call', error: expect.stringContaining('invalid JSON') as string },
    ],
    ['[1]', { type: 'unparsed_tool_call', error: 'expected the tool call to be a JSON object' }],
    [
      '{"name": 3, "arguments": {}}',
      { type: 'unparsed_tool_call', error: expect.stringContaining('"name"') as string },
    ],
    ['{"name": "f"}', { type: 'unparsed_tool_call', error: 'expected "arguments" beside "name"' }],
    [
      '{"name": "f", "arguments": "x"}',
      { type: 'unparsed_tool_call', error: 'expected "arguments" to be a JSON object' },
    ],
  ])('reads a call: %s', (inner, part) => {
    const parsed = parse('chatml', `ok\n<tool_call>\n${inner}\n</tool_call><|im_end|>`)
    expect(parsed.message.content).toMatchObject([text('ok'), part])
    expect(parsed.isClean).toBe(true)
    expect(parsed.failure?.kind).toBe(part.type === 'tool_call' ? undefined : 'content')
  })

  it('reports a call that is never closed, cleanly ended or not', () => {
    for (const end of ['<|im_end|>', ''])
      expect(parse('chatml', `a\n<tool_call>\n{"name": "f"${end}`)).toMatchObject({
        isClean: end !== '',
        message: { content: [text('a'), { type: 'unparsed_tool_call', rawText: '{"name": "f"' }] },
      })
  })

  it('takes an unclosed thought for a thought, not for an answer', () => {
    expect(parse('qwen3', '<think>\nhmm\n').message.content).toEqual([thinking('hmm')])
    expect(parse('qwen3', '<think>\nhmm<|im_end|>')).toMatchObject({
      isClean: true,
      message: { content: [thinking('hmm')] },
    })
  })

  it('keeps text between and after blocks where it stood', () => {
    const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    expect(parse('qwen3', `<think>\na\n</think>\n\nb\n${call}c${call}<|im_end|>`).message.content).toEqual([
      thinking('a'),
      text('b'),
      toolCall('f', '{}'),
      text('c'),
      toolCall('f', '{}'),
    ])
  })

  it('calls a message with a stray turn marker malformed and spells the marker', () => {
    const parsed = parse('chatml', 'a<|im_start|>user\nb<|im_end|>')
    expect(parsed).toMatchObject({ termination: 'malformed', failure: { kind: 'structural' } })
    expect(parsed.message.content).toBe('a<|im_start|>user\nb')
  })

  it('reads the sections of DeepSeek and both spellings of Kimi', () => {
    const call = '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": "```"}\n```<｜tool▁call▁end｜>'
    expect(
      parse('deepseekv3', `x<｜tool▁calls▁begin｜>${call}\n${call}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>`).message
        .content,
    ).toEqual([text('x'), toolCall('f', '{"a": "```"}'), toolCall('f', '{"a": "```"}')])
    for (const kind of ['calls', 'call'])
      expect(
        parse(
          'kimi_k2',
          `<think></think><|tool_${kind}_section_begin|><|tool_call_begin|>functions.get:x:3<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_${kind}_section_end|><|im_end|>`,
        ).message.content,
      ).toEqual([toolCall('get:x', '{}', 'functions.get:x:3')])
  })

  it('reads a bare call of Llama 3.1, and other JSON as text', () => {
    const end = '<|eot_id|>'
    expect(parse('llama3_1', `{"name": "f", "parameters": {"x": 2}}${end}`).message.content).toEqual([
      toolCall('f', '{"x": 2}'),
    ])
    expect(parse('llama3_1', `{"name": "f"}${end}`).message.content).toBe('{"name": "f"}')
    expect(parse('llama3_1', `{"name": "f", "parameters": {}`).message.content).toBe('{"name": "f", "parameters": {}')
  })

  it('refuses what a format cannot write, saying why', () => {
    const call = toolCall('f', '{}')
    const refuses = (name: string, content: Parameters<typeof assistant>[0], problem: string) => {
      const render = () => byName(name).supervisedExample([user('x'), assistant(content)])
      expect(render).toThrow(UnsupportedConversationError)
      expect(render).toThrow(problem)
    }
    refuses('llama3', [call], 'has no tools')
    refuses('llama3_1', [text('a'), call], 'exactly one call')
    refuses('gpt_oss_low', [call, call], 'one tool call per turn')
    refuses('qwen3_instruct', [thinking('a'), text('b')], 'reasons')
    refuses('qwen3_disable_thinking', [thinking('a'), text('b')], 'does not begin as')
  })
})

describe('channel bodies', () => {
  const final = '<|channel|>final<|message|>'
  it.each([
    [`<|channel|>analysis<|message|>a<|end|><|start|>assistant${final}b<|return|>`, [thinking('a'), text('b')]],
    [`${final}b<|return|>`, 'b'],
    [' to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>', [toolCall('f', '{"a": 1}')]],
    ['<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>', [toolCall('f', '{}')]],
    [
      '<|channel|>commentary<|message|>Let me.<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>',
      [text('Let me.'), toolCall('f', '{}')],
    ],
  ])('reads %s', (response, content) => {
    expect(parse('gpt_oss_low', response)).toMatchObject({ termination: 'stop', message: { content } })
  })

  it.each([
    [' to=browser.open<|channel|>commentary<|message|>{}<|call|>', 'expected a recipient'],
    [' to=functions.f<|channel|>commentary json<|message|>{<|call|>', 'invalid JSON'],
    [' to=functions.f<|channel|>commentary json<|message|>[]<|call|>', 'to be a JSON object'],
    [' to=functions.f<|channel|>commentary json<|message|>{}', 'unterminated'],
  ])('says what is wrong with the call in %s', (response, problem) => {
    const { content } = parse('gpt_oss_low', response).message
    expect(content).toMatchObject([{ type: 'unparsed_tool_call', error: expect.stringContaining(problem) as string }])
  })

  it.each([
    `${final}a<|end|>b<|return|>`,
    `${final}a<|message|>b<|return|>`,
    '<|channel|>final<|return|>',
    `<|end|>${final}a<|return|>`,
  ])('calls %s malformed', (response) => {
    expect(parse('gpt_oss_low', response)).toMatchObject({ termination: 'malformed', failure: { kind: 'structural' } })
  })
})
