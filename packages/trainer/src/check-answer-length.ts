import { ConfigError } from './errors.js'

/** The setting that says how long an answer may become, and the model that writes it. */
export interface AnswerLength {
  /** As it stands in the config, e.g. `config.maxNewTokens`. */
  readonly option: string
  /** Most new tokens; null: no cap of its own. */
  readonly tokens: number | null
  /** Longest prompt + answer of the model; undefined: unknown. */
  readonly contextLength: number | undefined
  /** Whose context it is, in messages. */
  readonly model: string
}

/**
 * Refuses a length that no prompt leaves room for. What is shorter may still meet prompts that leave less: such answers end where
 * the context does.
 *
 * @throws ConfigError naming the option, both numbers and the largest that works.
 */
export function checkAnswerLength({ option, tokens, contextLength, model }: AnswerLength): void {
  if (tokens === null || contextLength === undefined || tokens < contextLength) return
  throw new ConfigError(
    `${option}: expected at most ${contextLength - 1}, since the context of ${model} has ${contextLength} tokens, prompt ` +
      `included, got ${tokens}: ask for fewer, or take a model with a longer context`,
    { option, expected: contextLength - 1, got: tokens, contextLength },
  )
}
