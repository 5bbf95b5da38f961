const ESC = '\\u001b'
/** A whole escape sequence, in its 7-bit spelling (ESC and a letter) or as one C1 control. */
const SEQUENCES = new RegExp(
  [
    `(?:${ESC}[\\]PX^_]|[\\u0090\\u0098\\u009d-\\u009f])[^\\u0007\\u001b\\u009c]*(?:\\u0007|${ESC}\\\\|\\u009c)`, // OSC, DCS, SOS, PM, APC
    `(?:${ESC}\\[|\\u009b)[0-?]*[ -/]*[@-~]`, // CSI
    `${ESC}[ -/]*[0-Z\\\\^-~]`, // two characters, such as ESC c (reset)
  ].join('|'),
  'gu',
)
/** C0 without tab and line feed, DEL, C1, and the marks that turn the direction of text around. */
// oxlint-disable-next-line no-control-regex -- control characters are what must go
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu
const LONE_SURROGATES = /\p{Surrogate}/gu
const LINE_ENDS = /\r\n|[\u2028\u2029\u0085]/gu

/**
 * Text of a model as it may be shown in a terminal: no escape sequences (colours, cursor, window titles, links), no control
 * characters, nothing that reorders text. Tabs and line ends stay; lone surrogates become U+FFFD.
 */
export function stripControls(text: string): string {
  return text.replace(LONE_SURROGATES, '\ufffd').replace(LINE_ENDS, '\n').replace(SEQUENCES, '').replace(CONTROLS, '')
}

/** Stripped text on one line of at most `width` code points; what had to be cut ends in `...`. */
export function oneLine(text: string, width: number): string {
  const characters = Array.from(stripControls(text).replace(/\s+/gu, ' ').trim())
  if (characters.length <= width) return characters.join('')
  return `${characters
    .slice(0, Math.max(0, width - 3))
    .join('')
    .trimEnd()}...`
}
