import { SelfplayError } from '@selfplay/engine'
import { stripControls } from '../terminal/strip.js'
import { bold, type Screen } from '../terminal/screen.js'

/** The command was typed in a way that it does not understand: exit code 2. */
export class UsageError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('usage', message, details)
  }
}

/** `selfplay doctor` found that training cannot work here. */
export class NotReadyError extends SelfplayError {
  constructor(message: string) {
    super('not_ready', message)
  }
}

/** Why a run was stopped from outside: the reason of the signal that it was given. */
export class Interrupted extends Error {
  /** What the process ends with: 128 and the signal's number, as shells have it. */
  readonly exitCode: number

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${signal}`)
    this.name = 'Interrupted'
    this.exitCode = signal === 'SIGINT' ? 130 : 143
  }
}

/** The exit code of what a command threw: 2 for usage, 130 or 143 when it was stopped, else 1. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof Interrupted) return error.exitCode
  return error instanceof UsageError ? 2 : 1
}

/** Typed errors of our packages, and those of the system, say what they are; others are our mistakes. */
const codeOf = (error: unknown): string | undefined => {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' ? code : undefined
}

/** Where commands are listed. */
export const GENERAL_HELP = '`selfplay --help` lists commands and options.'

export interface FailureOptions {
  /** The stack and the causes instead of a hint. */
  readonly verbose: boolean
  /** The hint for what was typed in a way that is not understood. Default: where the commands are listed. */
  readonly usage?: string
}

/**
 * A failure as one block that a person can read: its code, its message (what was expected, what came, what to do), and how to
 * see more.
 */
export function describeFailure(
  error: unknown,
  screen: Screen,
  { verbose, usage = GENERAL_HELP }: FailureOptions,
): string {
  const code = codeOf(error)
  const message = error instanceof Error ? error.message : String(error)
  const title = code === undefined ? 'unexpected error' : `error (${code})`
  const lines = stripControls(message)
    .split('\n')
    .map((line) => `  ${line}`)
  const more = verbose
    ? stackOf(error)
    : error instanceof UsageError
      ? [`  ${usage}`]
      : ['  Add --verbose for the place in the code.']
  return `${[bold(screen, title), ...lines, ...more].join('\n')}\n`
}

function stackOf(error: unknown, depth = 0): string[] {
  if (!(error instanceof Error) || depth > 5) return []
  const own = stripControls(error.stack ?? '')
    .split('\n')
    .map((line) => `  ${line}`)
  const cause = error.cause instanceof Error ? ['  caused by', ...stackOf(error.cause, depth + 1)] : []
  return [...own, ...cause]
}
