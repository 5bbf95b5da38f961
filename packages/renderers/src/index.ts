export { createTokenizer, type Tokenizer } from './tokenizer.js'
export { byteTokenizer, type ByteTokenizerOptions } from './byte-tokenizer.js'
export { getTokenizer, type GetTokenizerOptions } from './get-tokenizer.js'
export {
  ChatFormatError,
  DelimiterInTextError,
  InvalidMessagesError,
  RendererError,
  TokenizerError,
  TypedError,
  UnknownRendererError,
  UnsupportedConversationError,
} from './errors.js'
export {
  assistant,
  checkMessages,
  checkTools,
  contentOf,
  contentPartSchema,
  messageSchema,
  partsOf,
  roleSchema,
  sameMessage,
  system,
  text,
  textOf,
  thinking,
  thinkingOf,
  toolCall,
  toolCallsOf,
  toolResult,
  toolSpecSchema,
  unparsedToolCallsOf,
  user,
  type ContentPart,
  type Message,
  type Role,
  type TextPart,
  type ThinkingPart,
  type ToolCallPart,
  type ToolSpec,
  type UnparsedToolCallPart,
} from './messages.js'
export {
  TRAIN_ON_WHAT,
  type BridgeOptions,
  type ParseEvent,
  type ParseFailure,
  type ParseOptions,
  type ParseStream,
  type ParsedResponse,
  type PromptOptions,
  type RenderOptions,
  type Renderer,
  type SupervisedExample,
  type SupervisedOptions,
  type Termination,
  type TrainOnWhat,
} from './renderer.js'
export { markup, type Markup } from './markup.js'
export { createRenderer } from './create-renderer.js'
export { defineChatFormat, type ChatFormat, type ConversationContext, type Turn, type TurnContext } from './format.js'
export type { Frame } from './grammar/frame.js'
export { inlineBody, type InlineGrammar, type ToolCallGrammar } from './grammar/inline.js'
export { channelBody, type ChannelGrammar } from './grammar/channel.js'
export { jsonPayload, templatePayload, type CallPayload } from './grammar/payload.js'
export type { AssistantBody, BodyParser, PartSink, ThinkingPolicy } from './grammar/body.js'
export { pythonJson } from './grammar/json.js'
export { stripPython } from './grammar/strip.js'
export {
  getRenderer,
  isRendererRegistered,
  registerRenderer,
  rendererNames,
  unregisterRenderer,
  type RendererFactory,
} from './registry.js'
export { recommendedRenderer } from './recommended.js'
export { didYouMean, nearest } from './nearest.js'
export { parseStrict, show } from './strict.js'
export {
  createTranscript,
  type BreakReason,
  type HistoryBreak,
  type Transcript,
  type TranscriptOptions,
} from './transcript.js'
