import { createHash } from 'node:crypto'
import { damaged } from './problem.js'
import { excerpt } from './json.js'

/** What Windows reserves for devices, whatever the extension. */
const DEVICE = /^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?=\.|$)/i
const ILLEGAL = /[<>:"|?*\p{Cc}]/gu
const MAX_BYTES = 255

/**
 * One file or folder name that is legal on Windows, Linux and macOS, made from any text such as a model id or a tag.
 *
 * `/` and `\` become `--`, other illegal characters `-`; a device name gets a leading `_`; a name longer than `maxBytes`
 * bytes of UTF-8 is cut and ends in `-` and the first 10 hex digits of the text's SHA-256, so that two long names stay two.
 * Different short texts may still give one name (`a:b` and `a-b`).
 *
 * @param maxBytes Default 255, the limit of common file systems. At least 16.
 */
export function portableName(text: string, maxBytes: number = MAX_BYTES): string {
  const clean = Buffer.from(text.normalize('NFC'), 'utf8')
    .toString('utf8') // lone surrogates become U+FFFD
    .replace(/[/\\]/g, '--')
    .replace(ILLEGAL, '-')
    .replace(/[. ]+$/, '')
    .replace(/^ +/, '')
    .replace(DEVICE, '_$&')
  const name = clean === '' ? '_' : clean
  if (Buffer.byteLength(name) <= maxBytes) return name
  const hash = createHash('sha256').update(text, 'utf8').digest('hex').slice(0, 10)
  return `${cut(name, maxBytes - 11)}-${hash}`
}

/** The longest beginning of `text` of at most `bytes` bytes of UTF-8 that splits no code point. */
function cut(text: string, bytes: number): string {
  let length = 0
  let end = 0
  for (const character of text) {
    length += Buffer.byteLength(character)
    if (length > bytes) break
    end += character.length
  }
  return text.slice(0, end)
}

/** A moment as part of a name, UTC to the second, sorting by time: `2026-11-29T153045Z`. */
export function timeName(moment: Date): string {
  return moment
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(':', '')
}

/**
 * A relative path out of a file that others wrote (an index, a manifest), when it stays inside its folder on every system.
 *
 * @param place The file it was found in, for the error.
 * @throws CheckpointError for absolute paths, drive letters, `..`, backslashes, empty parts and control characters.
 */
export function innerPath(path: string, place: string): string {
  const parts = path.split('/')
  const legal = parts.every((part) => part !== '' && part !== '.' && part !== '..' && !/[\\:\p{Cc}]/u.test(part))
  if (!legal)
    throw damaged(
      place,
      'file names inside its own folder',
      excerpt(path),
      'It is refused, since it could reach outside',
    )
  return path
}
