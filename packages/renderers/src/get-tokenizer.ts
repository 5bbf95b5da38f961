import { TokenizerError } from './errors.js'
import { createTokenizer, type Tokenizer } from './tokenizer.js'

export interface GetTokenizerOptions {
  /**
   * Turns a name that is no folder (`"Qwen/Qwen3-0.6B"`) into a folder with `tokenizer.json`, downloading it if need be.
   * Default: look into the local Hugging Face cache and never touch the network.
   */
  resolve?: (name: string, options: { signal?: AbortSignal }) => string | Promise<string>
  signal?: AbortSignal
}

/**
 * Loads the tokenizer of a model.
 *
 * @param source a folder with `tokenizer.json` (and usually `tokenizer_config.json`), or a hub name, which is given to
 *   `options.resolve` or else looked up in the local Hugging Face cache (`HF_HUB_CACHE`, `HF_HOME/hub`,
 *   `~/.cache/huggingface/hub`). This package downloads nothing itself.
 * @throws TokenizerError when there is no such folder or cached model, or its files do not describe a tokenizer
 */
export async function getTokenizer(source: string, options: GetTokenizerOptions = {}): Promise<Tokenizer> {
  options.signal?.throwIfAborted()
  const { stat } = await import('node:fs/promises')
  const isFolder = await stat(source).then(
    (found) => found.isDirectory(),
    () => false,
  )
  const forward = options.signal ? { signal: options.signal } : {}
  const folder = isFolder ? source : await (options.resolve ?? cachedFolder)(source, forward)
  const tokenizerJson = await readJson(folder, 'tokenizer.json', options.signal)
  if (tokenizerJson === undefined)
    throw new TokenizerError(
      `expected ${folder} to hold tokenizer.json (a Hugging Face fast tokenizer); there is none`,
      { folder },
    )
  return createTokenizer(tokenizerJson, (await readJson(folder, 'tokenizer_config.json', options.signal)) ?? {})
}

async function readJson(folder: string, name: string, signal?: AbortSignal): Promise<unknown> {
  const { readFile } = await import('node:fs/promises')
  const paths = await import('node:path')
  const path = paths.join(folder, name)
  let text: string
  try {
    text = await readFile(path, { encoding: 'utf8', ...(signal ? { signal } : {}) })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    signal?.throwIfAborted()
    throw new TokenizerError(`cannot read ${path}: ${(cause as Error).message}`, { path }, { cause })
  }
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new TokenizerError(`${path} is not JSON: ${(cause as Error).message}`, { path }, { cause })
  }
}

/** The snapshot folder of a hub name in the local Hugging Face cache. */
async function cachedFolder(name: string): Promise<string> {
  const { readFile, readdir } = await import('node:fs/promises')
  const paths = await import('node:path')
  const { homedir } = await import('node:os')
  const { HF_HUB_CACHE, HF_HOME } = process.env
  const cache = HF_HUB_CACHE ?? paths.join(HF_HOME ?? paths.join(homedir(), '.cache', 'huggingface'), 'hub')
  const missing = () =>
    new TokenizerError(
      `"${name}" is neither a folder nor a model in the local cache ${cache}; give a folder, or pass {resolve} that downloads it`,
      { name, cache },
    )
  if (!/^[\w.-]+(\/[\w.-]+)?$/.test(name) || name.includes('..')) throw missing()
  const model = paths.join(cache, `models--${name.replace('/', '--')}`)
  const main = await readFile(paths.join(model, 'refs', 'main'), 'utf8').catch(() => undefined)
  const revisions = await readdir(paths.join(model, 'snapshots')).catch(() => [] as string[])
  const revision = main && revisions.includes(main.trim()) ? main.trim() : revisions[0]
  if (revision === undefined) throw missing()
  return paths.join(model, 'snapshots', revision)
}
