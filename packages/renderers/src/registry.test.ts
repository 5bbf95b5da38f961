import { afterEach, describe, expect, it } from 'vitest'
import { byteTokenizer } from './byte-tokenizer.js'
import { ChatFormatError, RendererError, UnknownRendererError } from './errors.js'
import { defineChatFormat } from './format.js'
import { markup } from './markup.js'
import { user } from './messages.js'
import { recommendedRenderer } from './recommended.js'
import { getRenderer, isRendererRegistered, registerRenderer, rendererNames, unregisterRenderer } from './registry.js'

const tokenizer = byteTokenizer({ control: ['<s>', '</s>', '<|im_start|>', '<|im_end|>'] })
const tiny = defineChatFormat({
  name: 'acme/tiny',
  markers: ['<s>', '</s>'],
  stop: ['</s>'],
  turn: ({ role }) => ({ header: markup`<s>${role}:`, end: markup`</s>` }),
})

describe('the registry', () => {
  afterEach(() => void unregisterRenderer('acme/tiny'))

  it('makes a registered format known by name, once', () => {
    expect(isRendererRegistered('acme/tiny')).toBe(false)
    registerRenderer(tiny)
    expect(rendererNames()).toContain('acme/tiny')
    const prompt = getRenderer('acme/tiny', tokenizer).generationPrompt([user('hi')])
    expect(tokenizer.decode(prompt)).toBe('<s>user:hi</s><s>assistant:')
    expect(() => registerRenderer(tiny)).toThrow(RendererError)
    expect(unregisterRenderer('acme/tiny')).toBe(true)
    expect(unregisterRenderer('acme/tiny')).toBe(false)
  })

  it('takes a factory, and guards the built-in names', () => {
    registerRenderer('acme/tiny', (given) => getRenderer('chatml', given))
    expect(getRenderer('acme/tiny', tokenizer).name).toBe('chatml')
    expect(() => registerRenderer('qwen3', () => getRenderer('chatml', tokenizer))).toThrow('exists already')
    expect(unregisterRenderer('qwen3')).toBe(false)
  })

  it('holds the names of the built-in formats', () => {
    const names =
      'role_colon chatml qwen3 qwen3_disable_thinking qwen3_instruct llama3 llama3_1 deepseekv3 deepseekv3_thinking ' +
      'kimi_k2 gpt_oss_low gpt_oss_medium gpt_oss_high gemma3'
    expect(rendererNames().join(' ')).toBe(names)
  })

  it('answers an unknown name with the nearest, a wrong vocabulary with the missing marker', () => {
    expect(() => getRenderer('qwen_3', tokenizer)).toThrow(UnknownRendererError)
    expect(() => getRenderer('chatml', undefined as never)).toThrow(
      /expected a tokenizer .* such as await getTokenizer/,
    )
    expect(() => getRenderer(undefined as never, tokenizer)).toThrow('expected the name of a renderer, got undefined')
    expect(() => getRenderer('qwen_3', tokenizer)).toThrow('did you mean "qwen3"')
    expect(() => getRenderer('gemma3', tokenizer)).toThrow('"<bos>"')
    expect(() => getRenderer('gemma3', tokenizer)).toThrow(ChatFormatError)
  })

  it('checks options', () => {
    const render = (options?: unknown) =>
      tokenizer.decode(getRenderer('chatml', tokenizer, options).generationPrompt([user('x')]))
    expect(render()).toContain('created by Alibaba Cloud')
    expect(render({ defaultSystem: null })).toBe('<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n')
    expect(render({ defaultSystem: 'Hm.' })).toContain('system\nHm.<|im_end|>')
    expect(() => render({ defaultSytem: 'x' })).toThrow('did you mean "defaultSystem"')
    expect(() => getRenderer('qwen3', tokenizer, { date: 'x' })).toThrow('takes no options')
    const llama = byteTokenizer({
      control: ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
    })
    expect(() => getRenderer('llama3_1', llama)).toThrow('option date')
    expect(
      llama.decode(getRenderer('llama3_1', llama, { date: '1 Jan 2030' }).generationPrompt([user('x')])),
    ).toContain('Today Date: 1 Jan 2030')
  })
})

describe('defineChatFormat', () => {
  const turn = () => ({ header: markup``, end: markup`` })
  it.each([
    [{ name: 'x y', markers: [], stop: ['a'] }, 'expected a name'],
    [{ name: 'x', markers: ['a'], stop: [] }, 'at least one entry in stop'],
    [{ name: 'x', markers: ['a', 'a'], stop: ['a'] }, 'listed twice'],
    [{ name: 'x', markers: ['a'], softMarkers: [''], stop: ['a'] }, 'a marker is empty'],
    [{ name: 'x', markers: ['a'], stop: ['a'], bos: 'b' }, 'expected bos'],
    [{ name: 'x', markers: ['a'], stop: ['b'] }, 'neither in markers nor in delimiters'],
  ])('refuses %j', (description, problem) => {
    expect(() => defineChatFormat({ ...description, turn })).toThrow(problem)
    expect(() => defineChatFormat({ ...description, turn })).toThrow(ChatFormatError)
  })
})

describe('recommendedRenderer', () => {
  it.each([
    ['Qwen/Qwen2.5-0.5B-Instruct', 'chatml'],
    ['Qwen/Qwen2.5-0.5B', 'role_colon'],
    ['./models/Qwen3-0.6B', 'qwen3'],
    ['Qwen/Qwen3-0.6B-Base', 'role_colon'],
    ['Qwen/Qwen3-4B-Instruct-2507', 'qwen3_instruct'],
    ['meta-llama/Llama-3.2-1B-Instruct', 'llama3_1'],
    ['meta-llama/Meta-Llama-3-8B-Instruct', 'llama3'],
    ['meta-llama/Llama-3.1-8B', 'role_colon'],
    ['deepseek-ai/DeepSeek-V3', 'deepseekv3'],
    ['deepseek-ai/DeepSeek-R1', 'deepseekv3_thinking'],
    ['deepseek-ai/DeepSeek-R1-Distill-Qwen-7B', undefined],
    ['moonshotai/Kimi-K2-Instruct', 'kimi_k2'],
    ['openai/gpt-oss-20b', 'gpt_oss_medium'],
    ['google/gemma-3-1b-it', 'gemma3'],
    ['google/gemma-3-1b-pt', 'role_colon'],
    ['mistralai/Mistral-7B-v0.1', undefined],
  ])('%s -> %s', (model, renderer) => {
    expect(recommendedRenderer(model)).toBe(renderer)
    expect(renderer === undefined || isRendererRegistered(renderer)).toBe(true)
  })
})
