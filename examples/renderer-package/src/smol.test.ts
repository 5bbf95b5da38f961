import { byteTokenizer, getRenderer, textOf, thinkingOf, toolCallsOf, user } from '@selfplay/renderers'
import { describeRenderer, publishedTemplate } from '@selfplay/renderers/testing'
import { expect, it } from 'vitest'
import { smol } from './index.js'

const control = [...smol.markers, ...(smol.softMarkers ?? []), '<|endoftext|>']
// For a real model: await getTokenizer('./my-model').
const tokenizer = byteTokenizer({ control, eos: '<|endoftext|>' })

/** A tokenizer run over a whole rendered template: here control tokens are recognised, and text between them encoded. */
const encodeTemplate = (rendered: string): number[] =>
  rendered
    .split(/(<\|im_start\|>|<\|im_end\|>|<\/?think>|<\/?tool_call>)/)
    .flatMap((piece) => (control.includes(piece) ? [tokenizer.tokenId(piece)!] : tokenizer.encode(piece)))

interface TemplateMessage {
  role: string
  content: string
  reasoning_content?: string
  tool_calls?: { function: { name: string; arguments: string } }[]
}

/** What the model was trained with. For a real model: the template in its tokenizer_config.json, by `@huggingface/jinja`. */
function renderTemplate(context: Record<string, unknown>): string {
  const messages = context['messages'] as TemplateMessage[]
  const tools = (context['tools'] ?? []) as { function: object }[]
  const all =
    messages[0]?.role === 'system'
      ? messages
      : [{ role: 'system', content: 'You are Smol. You answer in few words.' }, ...messages]
  const declared =
    tools.length > 0 ? `\n\nTools:\n${tools.map((tool) => JSON.stringify(tool.function)).join('\n')}` : ''
  const turns = all.map((message: TemplateMessage, index) => {
    const isLast = index === all.length - 1 && message.role === 'assistant' && !context['add_generation_prompt']
    const thought = isLast && message.reasoning_content ? `<think>${message.reasoning_content}</think>\n` : ''
    const calls = (message.tool_calls ?? []).map(
      ({ function: { name, arguments: json } }, k) =>
        `${k > 0 || message.content !== '' ? '\n' : ''}<tool_call>{"name": "${name}", "arguments": ${json}}</tool_call>`,
    )
    return `<|im_start|>${message.role}\n${thought}${message.content}${index === 0 ? declared : ''}${calls.join('')}<|im_end|>\n`
  })
  return turns.join('') + (context['add_generation_prompt'] ? '<|im_start|>assistant\n' : '')
}

describeRenderer(smol, { tokenizer, template: publishedTemplate({ render: renderTemplate, encode: encodeTemplate }) })

it('is known by its name once the package is imported', () => {
  const renderer = getRenderer('acme/smol', tokenizer)
  const prompt = renderer.generationPrompt([user('Name a city in the clouds.')])
  expect(tokenizer.decode(prompt)).toBe(
    '<|im_start|>system\nYou are Smol. You answer in few words.<|im_end|>\n' +
      '<|im_start|>user\nName a city in the clouds.<|im_end|>\n<|im_start|>assistant\n',
  )
})

it('reads an answer with reasoning and a call', () => {
  const renderer = getRenderer('acme/smol', tokenizer)
  const sampled = encodeTemplate(
    '<think>A map will do.</think>\nLet me see.\n<tool_call>{"name": "map", "arguments": {"height": 9000}}</tool_call><|im_end|>',
  )
  const { message, termination } = renderer.parse(sampled)
  expect(termination).toBe('stop')
  expect([thinkingOf(message), textOf(message)]).toEqual(['A map will do.', 'Let me see.'])
  expect(toolCallsOf(message)).toMatchObject([{ name: 'map', arguments: '{"height": 9000}' }])
})
