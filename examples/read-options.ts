/**
 * Imported by the examples: reads the command line. `--help` says what the example does, its options and their defaults; a number
 * that is none is refused by the name of its option.
 */
import { parseArgs } from 'node:util'
import { InvalidInputError } from 'selfplay'

interface OptionText {
  readonly type: 'string' | 'boolean'
  readonly default?: string | boolean
  /** What it is, in a few words. */
  readonly help: string
  /** The text is to be a number from 0 on. */
  readonly number?: boolean
}

/** @param about lines: what the example does, and what becomes of a model that is named. */
export function readOptions<const O extends Readonly<Record<string, OptionText>>>(
  about: readonly string[],
  options: O,
) {
  const help = { type: 'boolean', help: 'show this' } as const
  // `help` stands in `known` alone, so that the examples see their own options only.
  const known: Record<string, OptionText> = { ...options, help }
  const { values } = parseArgs({ allowPositionals: true, options: known })
  if (values['help'] === true) {
    console.log(helpText(about, known))
    process.exit(0)
  }
  for (const [name, { number }] of Object.entries(options)) {
    const text = values[name]
    if (!number || typeof text !== 'string' || (text.trim() !== '' && Number(text) >= 0)) continue
    throw new InvalidInputError(`--${name}: expected a number from 0 on, got "${text}"`, { option: name })
  }
  return parseArgs({ allowPositionals: true, options })
}

function helpText(about: readonly string[], options: Readonly<Record<string, OptionText>>): string {
  const rows = Object.entries(options).map(([name, { type, help, default: value }]) => {
    const shown = type === 'string' && value !== undefined ? ` (default: ${value})` : ''
    return [`--${name}${type === 'string' ? ' <value>' : ''}`, `${help}${shown}`] as const
  })
  const width = Math.max(...rows.map(([flag]) => flag.length))
  const lines = rows.map(([flag, text]) => `  ${flag.padEnd(width)}  ${text}`)
  return [...about, '', 'Options, with npm behind `npm run example --`:', ...lines].join('\n')
}
