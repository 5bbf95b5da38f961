import { TOKENIZER_FILE } from '../checkpoint/folder.js'
import { HubError } from './errors.js'

/** A file of a repository on the hub, as its listing says. */
export interface RemoteFile {
  readonly path: string
  /** Bytes. */
  readonly size: number
  /** SHA-256 of the contents in hex digits; of large files only. */
  readonly sha256: string | undefined
  /** Git's hash of the blob in hex digits: SHA-1 of "blob <size>\0" and the contents; of the others. */
  readonly gitSha1: string | undefined
}

const WEIGHTS = 'model.safetensors'
export const INDEX = 'model.safetensors.index.json'

const isTokenizerOrConfig = (path: string): boolean =>
  path === 'config.json' || path === 'generation_config.json' || TOKENIZER_FILE.test(path)

/** Weights files that may be fetched at all: safetensors in the top folder. */
const isShard = (path: string): boolean => /^\w[\w.-]*\.safetensors$/.test(path)

/** Whether a file of this name may ever be fetched. Pickles, code and everything in subfolders may not. */
export const isAllowed = (path: string): boolean => isTokenizerOrConfig(path) || path === INDEX || isShard(path)

/**
 * What to fetch before the weights: configs, tokenizer and, for sharded models, the index.
 *
 * @param others Names of the repository's other files, to say what it holds instead.
 * @throws HubError when the repository has no config.json or no safetensors weights.
 */
export function chooseFirst(files: readonly RemoteFile[], others: readonly string[], repository: string): RemoteFile[] {
  const names = new Set(files.map(({ path }) => path))
  if (!names.has('config.json')) throw lacking(repository, 'config.json', 'it is no model that can be loaded')
  if (!names.has(WEIGHTS) && !names.has(INDEX)) {
    const pickled = others.some((name) => /\.(bin|pt|pth|ckpt|msgpack|h5)$/.test(name))
    throw lacking(
      repository,
      WEIGHTS,
      pickled ? 'its weights have other formats, which are never fetched' : 'it has no weights',
    )
  }
  return files.filter(({ path }) => isTokenizerOrConfig(path) || (path === INDEX && !names.has(WEIGHTS)))
}

function lacking(repository: string, missing: string, consequence: string): HubError {
  return new HubError(`${repository}: expected a repository with ${missing}, got none: ${consequence}`, {
    repository,
    missing,
  })
}

/**
 * The weights to fetch: one file, or the shards of the index.
 *
 * @param shards File names of the index; undefined for a model in one file.
 * @throws HubError when the index names a file that may not be fetched or is not in the repository.
 */
export function chooseWeights(
  files: readonly RemoteFile[],
  repository: string,
  shards?: Iterable<string>,
): RemoteFile[] {
  const byName = new Map(files.map((file) => [file.path, file]))
  return [...new Set(shards ?? [WEIGHTS])].map((name) => {
    const file = isShard(name) ? byName.get(name) : undefined
    if (file) return file
    throw new HubError(
      `${repository}: expected the shards of its index among its files, got no ${JSON.stringify(name)}`,
      {
        repository,
        missing: name,
      },
    )
  })
}
