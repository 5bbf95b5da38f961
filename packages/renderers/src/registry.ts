import { createRenderer } from './create-renderer.js'
import { RendererError, UnknownRendererError } from './errors.js'
import { defineChatFormat, type ChatFormat } from './format.js'
import { chatml, qwen3, qwen3DisableThinking, qwen3Instruct } from './formats/chatml.js'
import { deepseekv3, deepseekv3Thinking } from './formats/deepseek.js'
import { gemma3 } from './formats/gemma3.js'
import { gptOssHigh, gptOssLow, gptOssMedium } from './formats/gpt-oss.js'
import { kimiK2 } from './formats/kimi.js'
import { llama3, llama31 } from './formats/llama3.js'
import { roleColon } from './formats/role-colon.js'
import { didYouMean, nearest } from './nearest.js'
import type { Renderer } from './renderer.js'
import type { Tokenizer } from './tokenizer.js'

/** Makes a renderer for a tokenizer. `options` are those of the format. */
export type RendererFactory = (tokenizer: Tokenizer, options?: unknown) => Renderer

const factoryOf =
  <O>(format: ChatFormat<O>): RendererFactory =>
  (tokenizer, options) =>
    createRenderer(format, tokenizer, options)

const builtIn = new Map<string, RendererFactory>([
  [roleColon.name, factoryOf(roleColon)],
  [chatml.name, factoryOf(chatml)],
  [qwen3.name, factoryOf(qwen3)],
  [qwen3DisableThinking.name, factoryOf(qwen3DisableThinking)],
  [qwen3Instruct.name, factoryOf(qwen3Instruct)],
  [llama3.name, factoryOf(llama3)],
  [llama31.name, factoryOf(llama31)],
  [deepseekv3.name, factoryOf(deepseekv3)],
  [deepseekv3Thinking.name, factoryOf(deepseekv3Thinking)],
  [kimiK2.name, factoryOf(kimiK2)],
  [gptOssLow.name, factoryOf(gptOssLow)],
  [gptOssMedium.name, factoryOf(gptOssMedium)],
  [gptOssHigh.name, factoryOf(gptOssHigh)],
  [gemma3.name, factoryOf(gemma3)],
])

/** Formats that packages have registered in this process. */
const registered = new Map<string, RendererFactory>()

/**
 * Makes a chat format known by name, so that configurations can name it.
 *
 * @param name the name, `owner/format`; or a format, which brings its own
 * @param factory makes the renderer; left out when a format is given
 * @throws RendererError with code `renderer_exists` when the name is taken by a built-in format or by another package
 */
export function registerRenderer(name: string, factory: RendererFactory): void
export function registerRenderer<O>(format: ChatFormat<O>): void
export function registerRenderer<O>(nameOrFormat: string | ChatFormat<O>, given?: RendererFactory): void {
  const name = typeof nameOrFormat === 'string' ? nameOrFormat : nameOrFormat.name
  const factory = typeof nameOrFormat === 'string' ? given : factoryOf(defineChatFormat(nameOrFormat))
  if (!factory)
    throw new RendererError('invalid_input', `registerRenderer(${JSON.stringify(name)}): expected a factory`)
  if (isRendererRegistered(name))
    throw new RendererError(
      'renderer_exists',
      `a renderer called ${JSON.stringify(name)} exists already; put your own name before it ("you/${name}"), or unregister the other first`,
      { name },
    )
  registered.set(name, factory)
}

/** Forgets a registered format. Built-in ones stay. @returns whether there was one */
export const unregisterRenderer = (name: string): boolean => registered.delete(name)

export const isRendererRegistered = (name: string): boolean => builtIn.has(name) || registered.has(name)

/** All names, built-in ones first. */
export const rendererNames = (): string[] => [...builtIn.keys(), ...registered.keys()]

/**
 * The renderer of a chat format for a tokenizer.
 *
 * @param options what the format asks for: `{date}` for `llama3_1` and `gpt_oss_*`, `{defaultSystem}` for `chatml`
 * @throws UnknownRendererError with the nearest known name; ChatFormatError when tokenizer or options do not fit; RendererError with
 *   code `invalid_input` when there is no tokenizer
 */
export function getRenderer(name: string, tokenizer: Tokenizer, options?: unknown): Renderer {
  if (typeof name !== 'string')
    throw new RendererError('invalid_input', `getRenderer: expected the name of a renderer, got ${typeof name}`)
  const factory = builtIn.get(name) ?? registered.get(name)
  if (factory) return factory(checkedTokenizer(name, tokenizer), options)
  const known = rendererNames()
  throw new UnknownRendererError(
    `no renderer is called ${JSON.stringify(name)}${didYouMean(name, known, '; ') || '.'} Known: ${known.join(', ')}. A contributed one is known once its package is imported`,
    { name, suggestion: nearest(name, known) },
  )
}

function checkedTokenizer(name: string, tokenizer: Tokenizer): Tokenizer {
  if (typeof tokenizer === 'object' && tokenizer !== null && 'tokenId' in tokenizer) return tokenizer
  throw new RendererError(
    'invalid_input',
    `getRenderer("${name}"): expected a tokenizer with encode, decode and tokenId, such as await getTokenizer(folder), got ${
      tokenizer === undefined ? 'none' : typeof tokenizer
    }`,
    { name },
  )
}
