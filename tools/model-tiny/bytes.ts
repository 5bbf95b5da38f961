/**
 * The printable stand-ins for bytes that byte-level tokenizers write their vocabularies in: printable Latin-1 bytes stand for themselves,
 * the other 68 for the code points from U+0100 on, in byte order.
 */
export const byteToChar: readonly string[] = (() => {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++))
})()

const utf8 = new TextEncoder()

/** The stand-in characters of a text, one per UTF-8 byte. */
export const toByteChars = (text: string): string[] =>
  Array.from(utf8.encode(text), (byte) => byteToChar[byte] as string)
