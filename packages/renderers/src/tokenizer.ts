import { Tokenizer as HuggingFaceTokenizer, AddedToken } from '@huggingface/tokenizers'
import { TokenizerError } from './errors.js'
import { byteTable } from './token-bytes.js'

/**
 * Text to token ids and back.
 *
 * `encode` never produces a control id: the spelling of an added token inside `text` (`"<|im_end|>"`, `"<think>"`) is
 * encoded as the plain characters that it consists of. The only way to a control id is {@link Tokenizer.tokenId}.
 */
export interface Tokenizer {
  /** Plain text to ids, without BOS, EOS or any other control token. The empty string gives `[]`. */
  encode(text: string): number[]
  /**
   * Ids to text. `[]` gives `""`; bytes that are not UTF-8 become U+FFFD; ids outside the vocabulary give `""`.
   *
   * @param options.skipSpecialTokens leaves tokens that the vocabulary marks as special out of the text. Default false.
   */
  decode(ids: readonly number[] | Int32Array, options?: { skipSpecialTokens?: boolean }): string
  /** The id of exactly this token of the vocabulary (`"<|im_start|>"`), or `undefined`. */
  tokenId(token: string): number | undefined
  /** One more than the largest id. */
  readonly vocabSize: number
  /** The id of the end-of-sequence token that the tokenizer's configuration names. */
  readonly eosTokenId?: number
  /** The id of the beginning-of-sequence token that the tokenizer's configuration names. */
  readonly bosTokenId?: number
  /** Ids that no text encodes to: special tokens, and added tokens that a format may use as markers. */
  readonly controlIds?: ReadonlySet<number>
}

interface AddedTokenJson {
  id: number
  content: string
  special?: boolean
}

/** How `tokenizer_config.json` spells a special token: the text itself, or a record that holds it. */
const tokenText = (entry: unknown): string | undefined =>
  typeof entry === 'string'
    ? entry
    : entry && typeof entry === 'object' && 'content' in entry && typeof entry.content === 'string'
      ? entry.content
      : undefined

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function readAddedTokens(json: Record<string, unknown>): AddedTokenJson[] {
  const entries = json['added_tokens'] ?? []
  const valid = (entry: unknown): entry is AddedTokenJson =>
    isRecord(entry) && Number.isInteger(entry['id']) && typeof entry['content'] === 'string' && entry['content'] !== ''
  if (!Array.isArray(entries) || !entries.every(valid))
    throw new TokenizerError('tokenizer.json: expected added_tokens to be a list of {id, content}')
  return entries
}

/**
 * Makes a tokenizer from the parsed contents of `tokenizer.json` and, where there is one, `tokenizer_config.json`.
 * Works wherever JavaScript does; {@link getTokenizer} reads the files.
 *
 * @throws TokenizerError when the contents do not describe a tokenizer that the library knows
 */
export function createTokenizer(tokenizerJson: unknown, tokenizerConfig: unknown = {}): Tokenizer {
  if (!isRecord(tokenizerJson) || !isRecord(tokenizerJson['model']))
    throw new TokenizerError(
      'tokenizer.json: expected an object with a "model"; is this a Hugging Face fast tokenizer?',
    )
  if (!isRecord(tokenizerConfig)) throw new TokenizerError('tokenizer_config.json: expected an object')
  const added = readAddedTokens(tokenizerJson)
  const plain = plainTokenizer(tokenizerJson, tokenizerConfig, added)
  const encodePlain = (text: string) => plain.encode(text, { add_special_tokens: false }).ids

  const idOf = new Map(added.map((token) => [token.content, token.id]))
  const special = new Set(added.filter((token) => token.special).map((token) => token.id))
  // An added token is ordinary when its spelling, read as plain text, is that very token anyway (runs of blanks, ...).
  const ordinary = (token: AddedTokenJson) => {
    const ids = encodePlain(token.content)
    return ids.length === 1 && ids[0] === token.id
  }
  const controlTokens = added.filter((token) => token.special || !ordinary(token))
  const controlIds = new Set(controlTokens.map((token) => token.id))
  const encode = guardedEncode(encodePlain, controlTokens, controlIds)
  const tokenId = (token: string) => idOf.get(token) ?? plain.token_to_id(token)
  const vocab = plain.model!.vocab
  const eosTokenId = tokenId(tokenText(tokenizerConfig['eos_token']) ?? '')
  const bosTokenId = tokenId(tokenText(tokenizerConfig['bos_token']) ?? '')
  const decodeIds = decoderOf(plain, tokenizerJson, new Set(idOf.values()))

  return {
    encode,
    decode(ids, options = {}) {
      const list = Array.from(ids)
      return decodeIds(options.skipSpecialTokens ? list.filter((id) => !special.has(id)) : list)
    },
    tokenId,
    vocabSize: vocab.length,
    controlIds,
    ...(eosTokenId === undefined ? {} : { eosTokenId }),
    ...(bosTokenId === undefined ? {} : { bosTokenId }),
  }
}

/** The library's tokenizer without added tokens, so that no text matches one; they are entered for decoding only. */
function plainTokenizer(json: Record<string, unknown>, config: Record<string, unknown>, added: AddedTokenJson[]) {
  const parts = {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    ...json,
    added_tokens: [],
  }
  let plain: HuggingFaceTokenizer
  try {
    plain = new HuggingFaceTokenizer(parts, config)
  } catch (cause) {
    throw new TokenizerError(`tokenizer.json cannot be used: ${(cause as Error).message}`, {}, { cause })
  }
  const vocab = plain.model!.vocab
  for (const { id, content } of added) vocab[id] = content
  if (plain.decoder) plain.decoder.added_tokens = added.map((token) => new AddedToken(token))
  return plain
}

/**
 * Encodes plain text and checks the result. Vocabularies that list their control tokens in the model itself could still
 * match one; then the text is cut inside each control spelling and its pieces are encoded apart.
 */
function guardedEncode(
  encodePlain: (text: string) => number[],
  controlTokens: readonly AddedTokenJson[],
  controlIds: ReadonlySet<number>,
): (text: string) => number[] {
  const clean = (ids: number[]) => !ids.some((id) => controlIds.has(id))
  const spellings = controlTokens.map((token) => token.content).sort((a, b) => b.length - a.length)
  const cutInside = (text: string): string[] => {
    const cuts = new Set<number>()
    for (const spelling of spellings)
      for (let at = text.indexOf(spelling); at >= 0; at = text.indexOf(spelling, at + 1))
        cuts.add(at + (spelling.codePointAt(0)! > 0xffff ? 2 : 1))
    const edges = [0, ...[...cuts].sort((a, b) => a - b), text.length]
    return edges.slice(1).map((end, k) => text.slice(edges[k], end))
  }
  return (text) => {
    if (text === '') return []
    const ids = encodePlain(text)
    if (clean(ids)) return ids
    const pieces = cutInside(text).flatMap((piece) => (piece === '' ? [] : encodePlain(piece)))
    if (clean(pieces)) return pieces
    const id = pieces.find((piece) => controlIds.has(piece))
    throw new TokenizerError(
      `this vocabulary encodes plain text to the control token ${id}; it cannot be used safely`,
      { id },
    )
  }
}

/** Ids to text: over a table of bytes for byte-level vocabularies, by the library for the others. */
function decoderOf(plain: HuggingFaceTokenizer, json: Record<string, unknown>, addedIds: ReadonlySet<number>) {
  const vocab = plain.model!.vocab
  const decoder = json['decoder']
  if (isRecord(decoder) && decoder['type'] === 'ByteLevel') return byteTable(vocab, addedIds)
  return (ids: number[]): string => {
    const known = ids.filter((id) => vocab[id] !== undefined)
    return known.length === 0
      ? ''
      : plain.decode(known, { clean_up_tokenization_spaces: false, skip_special_tokens: false })
  }
}
