import { Template } from '@huggingface/jinja'
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers'
import { describe, expect, it } from 'vitest'
import {
  getRenderer,
  partsOf,
  sameMessage,
  thinkingOf,
  toolCallsOf,
  type Message,
  type Renderer,
  type Tokenizer,
} from '../src/index.js'
import { conversations, type TestConversation } from '../src/testing/conversations.js'
import { publishedTemplate } from '../src/testing/template.js'
import { fixtureOptions, readFixture, recordedTokenizer, render, type OracleIds, type Rendering } from './fixture.js'
import { qwen3Files, qwen3Tokenizer } from './formats.js'

/** Conversations that a format refuses although its template writes something: what the template does then. */
const REFUSED: Record<string, Record<string, string>> = {
  llama3_1: { 'text and tool call': 'leaves the text out' },
  gpt_oss_medium: {
    'two system messages': 'leaves the second out',
    'system later': 'leaves it out',
    'two calls and results': 'leaves the second call out',
  },
  deepseekv3: { 'system later': 'moves it to the start' },
  deepseekv3_thinking: { 'system later': 'moves it to the start' },
}

/** Where a format differs from its template on purpose, in `prompt`, in `full` or in both. */
const DEVIATES: Record<string, Record<string, readonly (keyof OracleIds)[]>> = {
  // The template puts text before a call into the channel of thoughts, and forgets the thought before a call in a full
  // render, though a prompt had it.
  gpt_oss_medium: { 'text and tool call': ['full'], 'thinking and tools': ['full'] },
  // Without a user message the template closes an empty block in the prompt, but writes none in a full render.
  qwen3_disable_thinking: { 'system and answer only': ['full'] },
  // The template declares no tools, closes a single call not at all, and drops calls that follow text.
  deepseekv3: {
    'tools declared': ['prompt', 'full'],
    'system and tools': ['prompt', 'full'],
    'tool call': ['prompt', 'full'],
    'text and tool call': ['prompt', 'full'],
    'tool result': ['prompt', 'full'],
    'tool result and answer': ['prompt', 'full'],
    'calls without declarations': ['prompt', 'full'],
  },
}

const usesThinking = ({ messages }: TestConversation) => messages.some((message) => thinkingOf(message) !== '')
const usesTools = ({ messages, tools }: TestConversation) =>
  tools !== undefined || messages.some((message) => message.role === 'tool' || toolCallsOf(message).length > 0)

interface Comparison {
  /** The conversations that both could write. */
  readonly compared: string[]
  readonly problems: string[]
}

/** Compares a format with its template over all conversations. */
function compare(
  renderer: Renderer,
  oracle: (conversation: TestConversation) => OracleIds | null | undefined,
): Comparison {
  const compared: string[] = []
  const problems: string[] = []
  for (const conversation of conversations) {
    const expected = oracle(conversation)
    if (!expected) continue
    const { name } = conversation
    const got = render(renderer, conversation)
    if (got) {
      compared.push(name)
      problems.push(...differences(renderer, conversation, got, expected))
    } else if (!REFUSED[renderer.name]?.[name] && !usesThinking(conversation) && !usesTools(conversation))
      problems.push(`refuses "${name}"`)
  }
  return { compared, problems }
}

function differences(
  renderer: Renderer,
  conversation: TestConversation,
  got: Rendering,
  expected: OracleIds,
): string[] {
  const { name, messages } = conversation
  const { tokenizer } = renderer
  const problems: string[] = []
  const deviates = deviations(renderer.name, conversation)
  for (const kind of ['prompt', 'full'] as const) {
    const template = kind === 'prompt' ? expected.prompt : expected.full.slice(0, got.full.length)
    const isSame = got[kind].length === template.length && template.every((id, k) => got[kind][k] === id)
    if (deviates.includes(kind) && isSame) problems.push(`${name}, ${kind}: deviates no longer`)
    if (!deviates.includes(kind) && !isSame)
      problems.push(`${name}, ${kind}: ${JSON.stringify([tokenizer.decode(got[kind]), tokenizer.decode(template)])}`)
  }
  const rest = tokenizer.decode(expected.full.slice(got.full.length)).trim()
  if (!deviates.includes('full') && rest !== '') problems.push(`${name}: ends before ${JSON.stringify(rest)}`)
  if (got.target) {
    const parsed = renderer.parse(got.target, { prompt: got.prompt })
    if (!parsed.isClean || !sameMessage(parsed.message, renderer.normalise(messages.at(-1)!)))
      problems.push(`${name}: read as ${JSON.stringify(parsed)}`)
  }
  return problems
}

function deviations(format: string, conversation: TestConversation): readonly (keyof OracleIds)[] {
  const { name, messages } = conversation
  if (format !== 'deepseekv3_thinking') return DEVIATES[format]?.[name] ?? []
  // The template writes no reasoning at all, though its prompts open the block: a full render never fits its prompt.
  const answered = messages.at(-1)!.role === 'assistant' && messages.at(-2)?.role !== 'tool'
  if (conversation.tools) return ['prompt', 'full']
  // It joins tool outputs directly; the template in the model's own repository puts line breaks between them.
  if (name === 'two calls and results') return ['prompt', 'full']
  return answered ? ['full'] : []
}

const plain = ['1 turns', '2 turns', '3 turns', '4 turns', '5 turns', '6 turns', 'scripts', 'code', 'blanks at edges']
const withTools = ['tools declared', 'tool call', 'tool result', 'tool result and answer', 'system and tools']

describe('ids equal those of the published template', () => {
  it.each([
    ['llama3', 'llama3', plain],
    ['llama3_1', 'llama3_1', [...plain, ...withTools, 'calls without declarations']],
    ['gemma3', 'gemma3', [...plain, 'empty system', 'empty answer in history']],
    ['deepseek_v3', 'deepseekv3', [...plain, 'two system messages', 'two calls and results']],
    ['deepseek_v3', 'deepseekv3_thinking', [...plain, 'thinking', 'thinking in history', 'calls without declarations']],
    ['gptoss', 'gpt_oss_low', plain.slice(0, 6)],
    ['gptoss', 'gpt_oss_medium', [...plain, ...withTools, 'thinking', 'thinking in history', 'thinking and tools']],
    ['gptoss', 'gpt_oss_high', plain.slice(0, 6)],
  ])('%s vocabulary, %s', (vocabulary, format, atLeast) => {
    const fixture = readFixture(vocabulary)
    const renderer = getRenderer(format, recordedTokenizer(fixture.recorded!), fixtureOptions(format))
    const { compared, problems } = compare(renderer, ({ name }) => fixture.formats[format]![name])
    expect(problems).toEqual([])
    expect(compared).toEqual(expect.arrayContaining(atLeast))
  })

  it.each(['chatml', 'qwen3_instruct'])('qwen3 vocabulary, %s', (format) => {
    const fixture = readFixture('qwen3')
    const renderer = getRenderer(format, qwen3Tokenizer())
    const { compared, problems } = compare(renderer, ({ name }) => fixture.formats[format]![name])
    expect(problems).toEqual([])
    expect(compared).toEqual(
      expect.arrayContaining([...plain, ...withTools, 'system later', 'two calls and results', 'text and tool call']),
    )
  })

  it.each([
    ['qwen3', true],
    ['qwen3_disable_thinking', false],
  ])('qwen3 vocabulary and the template in its package, %s', (format, thinks) => {
    const oracle = qwen3Oracle(thinks)
    const { compared, problems } = compare(getRenderer(format, qwen3Tokenizer()), oracle)
    const thoughts = ['thinking', 'thinking in history', 'thinking and tools', 'thinking and no answer']
    expect(problems).toEqual([])
    expect(compared).toEqual(
      expect.arrayContaining([...plain, ...withTools, 'two calls and results', ...(thinks ? thoughts : [])]),
    )
  })
})

/** Qwen3's own template. */
function qwen3Oracle(enableThinking: boolean): (conversation: TestConversation) => OracleIds | undefined {
  const { json, config } = qwen3Files()
  const template = new Template(config['chat_template'] as string)
  const whole = new HuggingFaceTokenizer(json as object, config)
  const ids = publishedTemplate({
    render: (context) => template.render(context),
    encode: (text) => whole.encode(text, { add_special_tokens: false }).ids,
    variables: { enable_thinking: enableThinking },
  })
  return (conversation) => ids(conversation) as OracleIds | undefined
}

describe('where an answer begins with line breaks', () => {
  it('keeps the boundary at which it was sampled, which a template run over the whole text does not', () => {
    const tokenizer: Tokenizer = qwen3Tokenizer()
    const renderer = getRenderer('chatml', tokenizer)
    const messages: Message[] = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: '\n\nHello' },
    ]
    const prompt = renderer.generationPrompt(messages.slice(0, 1))
    const { tokens } = renderer.supervisedExample(messages)
    expect(Array.from(tokens.slice(0, prompt.length))).toEqual(Array.from(prompt))
    expect(tokenizer.decode(tokens)).toMatch(/assistant\n\n\nHello<\|im_end\|>$/)
    expect(partsOf(renderer.parse(tokens.slice(prompt.length)).message)).toEqual([{ type: 'text', text: '\n\nHello' }])
  })
})
