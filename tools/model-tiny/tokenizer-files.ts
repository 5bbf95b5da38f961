import { PIECE_PATTERN, type Bpe } from './bpe.js'

/** ChatML: every message between its markers, then the assistant's header if an answer is wanted. */
const CHAT_TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

interface AddedToken {
  readonly content: string
  readonly lstrip: false
  readonly normalized: false
  readonly rstrip: false
  readonly single_word: false
  readonly special: true
}

const addedToken = (content: string): AddedToken => ({
  content,
  lstrip: false,
  normalized: false,
  rstrip: false,
  single_word: false,
  special: true,
})

/** The content of `tokenizer.json`: no normaliser (any UTF-8 comes back as it was), pieces by regular expression, then bytes. */
export function tokenizerJson(bpe: Bpe, specialTokens: readonly string[]): Record<string, unknown> {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false }
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specialTokens.map((token, index) => ({ id: bpe.tokens.length + index, ...addedToken(token) })),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: PIECE_PATTERN }, behavior: 'Isolated', invert: false },
        byteLevel,
      ],
    },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(bpe.tokens.map((token, id) => [token, id])),
      merges: bpe.merges,
    },
  }
}

/** The content of `tokenizer_config.json`. The first special token ends a text and pads. */
export function tokenizerConfig(
  bpe: Bpe,
  specialTokens: readonly string[],
  contextLength: number,
): Record<string, unknown> {
  return {
    add_bos_token: false,
    add_prefix_space: false,
    added_tokens_decoder: Object.fromEntries(
      specialTokens.map((token, index) => [String(bpe.tokens.length + index), addedToken(token)]),
    ),
    additional_special_tokens: specialTokens.slice(1),
    bos_token: null,
    chat_template: CHAT_TEMPLATE,
    clean_up_tokenization_spaces: false,
    eos_token: specialTokens[0],
    model_max_length: contextLength,
    pad_token: specialTokens[0],
    split_special_tokens: false,
    tokenizer_class: 'Qwen2Tokenizer',
    unk_token: null,
  }
}
