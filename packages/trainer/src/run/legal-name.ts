import { createHash } from 'node:crypto'

const RESERVED = /^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$/i
const encoder = new TextEncoder()

/**
 * A file name made of any text that is legal on Windows, macOS and Linux: no separators, colons or control characters, no
 * reserved name, no trailing dot or space, at most `maxBytes` of UTF-8; what had to be shortened ends in a hash of the whole.
 */
export function legalName(text: string, maxBytes = 100): string {
  let name = text
    .replaceAll(/[<>:"/\\|?*\p{Cc}]+/gu, '-')
    .replace(/[. ]+$/, '')
    .replace(/^[ ]+/, '')
  if (name === '' || name === '.' || name === '..') name = 'unnamed'
  if (RESERVED.test(name)) name = `_${name}`
  if (encoder.encode(name).length <= maxBytes) return name
  const hash = createHash('sha256').update(text, 'utf8').digest('hex').slice(0, 10)
  let kept = ''
  for (const character of name) {
    if (encoder.encode(kept + character).length > maxBytes - hash.length - 1) break
    kept += character
  }
  return `${kept}-${hash}`
}

/** The name of a run's folder: `<task>-<UTC time>`, e.g. `length-ratio-2026-11-29T153000Z`. */
export function runFolderName(task: string, time: Date): string {
  const stamp = time
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(':', '')
  return `${legalName(task)}-${stamp}`
}
