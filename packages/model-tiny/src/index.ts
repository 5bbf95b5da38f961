import { fileURLToPath } from 'node:url'

/** The folder of the bundled model, in Hugging Face layout: config, float16 weights, tokenizer. */
export const modelPath: string = fileURLToPath(new URL('../model', import.meta.url))

/** What the bundled model is. */
export const modelInfo = {
  name: 'tiny',
  architecture: 'qwen2',
  /** All parameters; the output head shares the embedding's. */
  parameters: 853_632,
  vocabSize: 2048,
  /** Longest prompt + completion, in tokens. */
  contextLength: 512,
  /** The renderer that speaks the chat format of its training text. */
  chatFormat: 'chatml',
  /** Ends a plain answer. */
  endOfText: '<|endoftext|>',
  /** Ends a turn of a conversation. */
  endOfTurn: '<|im_end|>',
} as const
