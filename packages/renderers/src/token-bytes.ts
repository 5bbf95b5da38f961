/**
 * The byte that each character of a byte-level vocabulary stands for: printable Latin-1 characters are themselves, the
 * other bytes follow from U+0100 in ascending order (Radford et al. 2019, the GPT-2 tokenizer).
 */
function byteOfCharacter(): Map<string, number> {
  const table = new Map<string, number>()
  let next = 0x100
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    table.set(String.fromCharCode(printable ? byte : next++), byte)
  }
  return table
}

/**
 * A decoder for byte-level vocabularies. The bytes of neighbouring tokens are joined before they are read as UTF-8, so
 * a character that is spread over tokens comes out whole; added tokens stand for their own spelling.
 *
 * @param vocab the token of each id, in the vocabulary's own spelling
 * @param addedIds the ids whose spelling is plain text
 */
export function byteTable(vocab: readonly string[], addedIds: ReadonlySet<number>): (ids: readonly number[]) => string {
  const bytes = byteOfCharacter()
  const cache = new Map<number, Uint8Array>()
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const bytesOf = (id: number): Uint8Array => {
    const known = cache.get(id)
    if (known) return known
    const made = Uint8Array.from(vocab[id] ?? '', (character) => bytes.get(character) ?? 0)
    cache.set(id, made)
    return made
  }
  let buffer = new Uint8Array(1024)
  return (ids) => {
    let text = ''
    let length = 0
    const flush = () => {
      if (length > 0) text += decoder.decode(buffer.subarray(0, length))
      length = 0
    }
    for (const id of ids) {
      if (addedIds.has(id)) {
        flush()
        text += vocab[id] ?? ''
        continue
      }
      const piece = bytesOf(id)
      if (length + piece.length > buffer.length) {
        const larger = new Uint8Array(2 * (length + piece.length))
        larger.set(buffer.subarray(0, length))
        buffer = larger
      }
      buffer.set(piece, length)
      length += piece.length
    }
    flush()
    return text
  }
}
