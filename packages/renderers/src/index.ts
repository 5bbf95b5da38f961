export { createTokenizer, type Tokenizer } from './tokenizer.js'
export { getTokenizer, type GetTokenizerOptions } from './get-tokenizer.js'
export {
  ChatFormatError,
  DelimiterInTextError,
  InvalidMessagesError,
  RendererError,
  TokenizerError,
  UnknownRendererError,
  UnsupportedConversationError,
} from './errors.js'
