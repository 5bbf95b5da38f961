/** Where the command writes, and what that place can do. */
export interface Screen {
  /** A terminal that can rewrite its last line. */
  readonly live: boolean
  readonly colours: boolean
  /** Columns; 80 where there is no terminal. */
  readonly width: number
  write(text: string): void
}

/** The part of a stream that a screen needs. */
export interface ScreenStream {
  readonly isTTY?: boolean
  readonly columns?: number
  hasColors?(env?: object): boolean
  write(text: string): unknown
}

/**
 * A screen on a stream. Colours only in a terminal, and never with NO_COLOR (any value but the empty one); a terminal that
 * calls itself `dumb` is written to line by line, like a file.
 */
export function screenOf(stream: ScreenStream, env: Readonly<Record<string, string | undefined>>): Screen {
  const terminal = stream.isTTY === true
  const live = terminal && env['TERM'] !== 'dumb'
  return {
    live,
    colours: live && !env['NO_COLOR'] && stream.hasColors?.(env) !== false,
    get width() {
      return Math.max(20, stream.columns || 80) // a terminal that does not know says 0
    },
    write: (text) => void stream.write(text),
  }
}

export const bold = (screen: Screen, text: string): string => (screen.colours ? `\u001b[1m${text}\u001b[22m` : text)
export const dim = (screen: Screen, text: string): string => (screen.colours ? `\u001b[2m${text}\u001b[22m` : text)

const LABEL_WIDTH = 10

/** Words in lines of at most `width` columns; a word that is longer than that stays whole. */
export function wrap(text: string, width: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = []
    let line = ''
    for (const word of paragraph.split(' ')) {
      if (line !== '' && line.length + 1 + word.length > width) {
        lines.push(line)
        line = word
      } else line = line === '' ? word : `${line} ${word}`
    }
    return [...lines, line]
  })
}

/** A label and what it is about, the way everything is shown: `run       runs/...`. Breaks long lines between words. */
export function labelled(screen: Screen, label: string, text: string): string {
  return verbatim(screen, label, wrap(text, Math.max(30, screen.width - LABEL_WIDTH - 1)).join('\n'))
}

/** Like {@link labelled}, without breaking lines: for commands that are copied, and for texts of agents. */
export function verbatim(screen: Screen, label: string, text: string): string {
  const indent = `\n${' '.repeat(LABEL_WIDTH)}`
  return `${bold(screen, label.padEnd(LABEL_WIDTH))}${text.split('\n').join(indent)}\n`
}
