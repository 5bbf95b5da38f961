import type { TrainingClient } from '@selfplay/engine'
import { getRenderer, type Renderer, type Tokenizer } from '@selfplay/renderers'
import { ConfigError } from '../errors.js'
import { has } from './live-parts.js'

const isTokenizer = (value: unknown): value is Tokenizer => has('encode', 'decode', 'tokenId')(value)

/** How a run's text becomes ids, and ids become text. */
export interface RunText {
  readonly tokenizer: Tokenizer | Pick<Tokenizer, 'decode'> | undefined
  readonly renderer: Renderer | undefined
}

/**
 * The tokenizer and renderer of a run, from what was given.
 *
 * @throws ConfigError for a renderer that is a name, without a tokenizer for it
 */
export function resolveText(
  client: TrainingClient,
  given: Tokenizer | Pick<Tokenizer, 'decode'> | undefined,
  format: string | Renderer | undefined,
): RunText {
  const own = (client as { tokenizer?: unknown }).tokenizer
  if (typeof format === 'object') return { renderer: format, tokenizer: given ?? format.tokenizer }
  const tokenizer = given ?? (has<Pick<Tokenizer, 'decode'>>('decode')(own) ? own : undefined)
  if (format === undefined) return { tokenizer, renderer: undefined }
  if (!isTokenizer(tokenizer)) {
    throw new ConfigError(
      `renderer "${format}" is a name and needs a tokenizer with encode, decode and tokenId: pass tokenizer, or a renderer`,
      { renderer: format },
    )
  }
  return { tokenizer, renderer: getRenderer(format, tokenizer) }
}
