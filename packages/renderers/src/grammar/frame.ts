import type { Markup } from '../markup.js'

/** What stands around a block. Line breaks just inside or behind a framing mark belong to the frame, however many. */
export interface Frame {
  readonly open: Markup
  readonly close: Markup
}

const pieceText = (markup: Markup, at: 0 | -1): string => {
  const piece = markup.pieces.at(at)
  return piece && 'literal' in piece ? piece.literal : ''
}

/** Which edges of a frame are line breaks: just inside the open mark, just inside the close mark, and behind it. */
export function frameBreaks(frame: Frame) {
  return {
    inside: pieceText(frame.open, -1).endsWith('\n'),
    before: pieceText(frame.close, 0).startsWith('\n'),
    behind: pieceText(frame.close, -1).endsWith('\n'),
  }
}
