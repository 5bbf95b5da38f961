import type { Tokenizer } from '@selfplay/renderers'

/** The markers of the built-in formats that tests use most. */
const MARKERS = ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<think>', '</think>', '<tool_call>', '</tool_call>']

/**
 * A tokenizer that needs no model: one id per UTF-8 byte, and the ids from 256 for markers. Text never becomes a marker.
 *
 * @param markers default: those of `chatml` and `qwen3`
 */
export function byteTokenizer(markers: readonly string[] = MARKERS): Tokenizer {
  const idOf = new Map(markers.map((marker, k) => [marker, 256 + k]))
  const utf8 = new TextEncoder()
  return {
    encode: (text) => [...utf8.encode(text)],
    decode(ids, { skipSpecialTokens = false } = {}) {
      let text = ''
      let bytes: number[] = []
      const flush = () => {
        text += new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes))
        bytes = []
      }
      for (const id of ids) {
        if (id < 256) bytes.push(id)
        else {
          flush()
          if (!skipSpecialTokens) text += markers[id - 256] ?? ''
        }
      }
      flush()
      return text
    },
    tokenId: (token) => idOf.get(token),
    vocabSize: 256 + markers.length,
    controlIds: new Set(idOf.values()),
  }
}
