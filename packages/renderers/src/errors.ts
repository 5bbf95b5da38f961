/**
 * The base of the typed errors of this package and of those that stand on it: env and rewards. To catch those of training cores
 * and loops as well, use `instanceof SelfplayError` of `@selfplay/engine`: it holds for these, too.
 *
 * `message` says what was expected, what came and what to do; `code` is stable and meant for `switch`.
 */
export class TypedError extends Error {
  static {
    // What `SelfplayError` knows them by: engine and this package import nothing from each other.
    Object.defineProperty(this.prototype, Symbol.for('selfplay.error'), { value: true })
  }

  /** A stable identifier such as `"unknown_renderer"`. */
  readonly code: string
  /** Structured facts: whatever identifies the place (format, message index, token, path, ...). */
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: string, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
    this.details = details
  }
}

/** The base of every error of renderers. */
export class RendererError extends TypedError {}

/** A tokenizer folder or file is missing, damaged, or of a kind that cannot be used. */
export class TokenizerError extends RendererError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('tokenizer', message, details, options)
  }
}

/** A message list, or an option of a renderer, that cannot be used as it came. */
export class InvalidMessagesError extends RendererError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('invalid_messages', message, details)
  }
}

/** The format cannot express this conversation (for example tools in a format without tools). */
export class UnsupportedConversationError extends RendererError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('unsupported_conversation', message, details)
  }
}

/** Text contains the delimiter of a format whose turns are delimited by text alone. */
export class DelimiterInTextError extends RendererError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('delimiter_in_text', message, details)
  }
}

/** No renderer has this name; `details.suggestion` is the nearest known one. */
export class UnknownRendererError extends RendererError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('unknown_renderer', message, details)
  }
}

/** A description of a chat format contradicts itself or the tokenizer it is used with. */
export class ChatFormatError extends RendererError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('chat_format', message, details)
  }
}
