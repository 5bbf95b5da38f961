import { defineChatFormat, inlineBody, jsonPayload, markup } from '@selfplay/renderers'

/**
 * A small chat format: turns between `<|im_start|>` and `<|im_end|>`, reasoning in `<think>`, tool calls as JSON.
 *
 * What stands in back quotes is written by us, so the markers in it are markers. What is interpolated is said by someone,
 * and stays text whatever it spells.
 */
export const smol = defineChatFormat({
  name: 'acme/smol',
  markers: ['<|im_start|>', '<|im_end|>'],
  // Tokens in some vocabularies, plain text in others.
  softMarkers: ['<think>', '</think>', '<tool_call>', '</tool_call>'],
  stop: ['<|im_end|>'],
  eos: ['<|endoftext|>'],
  defaultSystem: () => 'You are Smol. You answer in few words.',
  turn: ({ role, text, index, tools, produced }) => ({
    header: markup`<|im_start|>${role}\n`,
    // Tools are declared under the system message, which always comes first.
    body:
      index === 0 && tools.length > 0
        ? markup`${text}\n\nTools:\n${tools.map((tool) => JSON.stringify(tool)).join('\n')}`
        : markup`${text}`,
    end: markup`<|im_end|>\n`,
    // A model of this family sees no reasoning but that of the answer it is giving.
    thinking: produced ? 'keep' : 'drop',
  }),
  body: inlineBody({
    thinking: { open: markup`<think>`, close: markup`</think>\n` },
    toolCalls: {
      open: markup`<tool_call>`,
      close: markup`</tool_call>`,
      separator: '\n',
      payload: jsonPayload(),
    },
  }),
})
