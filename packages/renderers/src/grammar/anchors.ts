/** Finds the earliest of several strings in growing text, and says how much at the end may be the start of one. */
export class Anchors {
  readonly #anchors: readonly string[]

  constructor(anchors: readonly string[]) {
    this.#anchors = anchors
  }

  /** The first anchor in `text` at or after `from`; the longest of those that start at one place. */
  first(text: string, from = 0): { anchor: string; at: number } | undefined {
    let best: { anchor: string; at: number } | undefined
    for (const anchor of this.#anchors) {
      const at = text.indexOf(anchor, from)
      if (at < 0) continue
      if (!best || at < best.at || (at === best.at && anchor.length > best.anchor.length)) best = { anchor, at }
    }
    return best
  }

  /** The length of the longest end of `text` with which an anchor begins without being complete. */
  pending(text: string): number {
    let longest = 0
    for (const anchor of this.#anchors)
      for (let length = Math.min(anchor.length - 1, text.length); length > longest; length--)
        if (text.endsWith(anchor.slice(0, length))) longest = length
    return longest
  }
}
