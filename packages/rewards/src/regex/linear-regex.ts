import { parsePattern, type Assertion } from './parse.js'
import { compile, oneCharacter, type Instruction } from './program.js'

export interface RegexMatch {
  /** Of the match, in UTF-16 units as `String.slice` counts. */
  readonly start: number
  readonly end: number
  /** The match, then what each group captured. */
  readonly groups: readonly (string | undefined)[]
}

/** A possible way to go on: an instruction, and where groups began and ended on the way there. */
interface Thread {
  readonly at: number
  readonly slots: readonly (number | undefined)[]
}

/**
 * A regular expression that takes time proportional to text times pattern, whatever the pattern: all ways to match are
 * followed at once (Thompson 1968), in order of preference and with captures (Pike 1987). Syntax and meaning are those of
 * JavaScript's `u` flag, less back references, look-around and inline flags.
 *
 * Captures in repetitions differ from the built-in engine in one way: a group that took no part in the last round keeps what
 * it captured in an earlier one.
 *
 * @throws UnsupportedPatternError
 */
export class LinearRegex {
  readonly source: string
  readonly flags: string
  readonly #program: readonly Instruction[]
  readonly #groups: number
  readonly #isWord: (character: string) => boolean

  constructor(pattern: RegExp | string, flags?: string) {
    this.source = typeof pattern === 'string' ? pattern : pattern.source
    this.flags = flags ?? (typeof pattern === 'string' ? '' : pattern.flags)
    const parsed = parsePattern(this.source, this.flags)
    this.#program = compile(parsed, this.flags)
    this.#groups = parsed.groups
    this.#isWord = oneCharacter('\\w', this.flags)
  }

  /** Whether the text has a match. */
  test(text: string): boolean {
    return this.exec(text) !== undefined
  }

  /** The leftmost match that begins at `from` or later; the preferred one of those that begin there. */
  exec(text: string, from = 0): RegexMatch | undefined {
    const characters = Array.from(text.slice(from))
    const before = from > 0 ? Array.from(text.slice(Math.max(0, from - 2), from)).at(-1) : undefined
    const slots = this.#run(characters, before)
    if (!slots) return undefined
    const offsets = [from]
    for (const character of characters) offsets.push(offsets.at(-1)! + character.length)
    const groups = Array.from({ length: this.#groups + 1 }, (_, k) => {
      const [start, end] = [slots[2 * k], slots[2 * k + 1]]
      return start === undefined || end === undefined ? undefined : text.slice(offsets[start], offsets[end])
    })
    return { start: offsets[slots[0]!]!, end: offsets[slots[1]!]!, groups }
  }

  #run(characters: readonly string[], before: string | undefined): readonly (number | undefined)[] | undefined {
    const program = this.#program
    const seen = new Int32Array(program.length).fill(-1)
    let threads: Thread[] = []
    let best: readonly (number | undefined)[] | undefined
    for (let position = 0; position <= characters.length; position++) {
      const now: Thread[] = []
      const place = { position, characters, before, seen }
      for (const thread of threads) this.#follow(thread, place, now)
      if (!best) this.#follow({ at: 0, slots: [position] }, place, now)
      if (now.length === 0 && best) return best
      threads = []
      const character = characters[position]
      for (const { at, slots } of now) {
        const instruction = program[at]!
        if (instruction.op === 'match') {
          best = [slots[0], position, ...slots.slice(2)]
          break // what is less preferred than a match does not count
        }
        if (instruction.op !== 'character' || character === undefined) continue
        if (instruction.matches(character)) threads.push({ at: at + 1, slots })
      }
    }
    return best
  }

  /** Goes on over everything that takes no character, and adds where it arrives, in order of preference. */
  #follow(start: Thread, place: Place, arrived: Thread[]): void {
    const stack = [start]
    for (let thread = stack.pop(); thread; thread = stack.pop()) {
      const { at, slots } = thread
      if (place.seen[at] === place.position) continue
      place.seen[at] = place.position
      const instruction = this.#program[at]!
      if (instruction.op === 'jump') stack.push({ at: instruction.to, slots })
      else if (instruction.op === 'split') {
        stack.push({ at: instruction.second, slots })
        stack.push({ at: instruction.first, slots })
      } else if (instruction.op === 'save') {
        const saved = slots.slice()
        saved[instruction.slot] = place.position
        stack.push({ at: at + 1, slots: saved })
      } else if (instruction.op === 'assert') {
        if (this.#holds(instruction.kind, place)) stack.push({ at: at + 1, slots })
      } else arrived.push(thread)
    }
  }

  #holds(kind: Assertion, { position, characters, before }: Place): boolean {
    const previous = position > 0 ? characters[position - 1] : before
    const next = characters[position]
    const lines = this.flags.includes('m')
    if (kind === 'start') return previous === undefined || (lines && endsLine(previous))
    if (kind === 'end') return next === undefined || (lines && endsLine(next))
    const isWord = (character: string | undefined) => character !== undefined && this.#isWord(character)
    return (isWord(previous) !== isWord(next)) === (kind === 'boundary')
  }
}

interface Place {
  readonly position: number
  readonly characters: readonly string[]
  /** What stands before the first of the characters. */
  readonly before: string | undefined
  /** For each instruction, the last position at which it was reached. */
  readonly seen: Int32Array
}

const endsLine = (character: string): boolean => /^[\n\r\u2028\u2029]$/.test(character)
