import type { Command, CommanderError } from 'commander'
import { didYouMean, nearest } from '@selfplay/renderers'
import { builtInNames } from '../play/built-ins.js'
import { tasks } from '../tasks/index.js'
import { GENERAL_HELP, UsageError } from './failure.js'

/** How to see the options of the command that was typed, or all commands. */
export function helpHint(program: Command, args: readonly string[]): string {
  const command = commandOf(program, args)
  return command ? `\`selfplay ${command.name()} --help\` lists its options.` : GENERAL_HELP
}

const commandOf = (program: Command, [name]: readonly string[]): Command | undefined =>
  program.commands.find((command) => command.name() === name)

/** What commander did not understand, in our words: what is near, and what an argument is for. */
export function usageError(error: CommanderError, program: Command, args: readonly string[]): UsageError {
  const message = error.message.replace(/^error: /, '').replace(/\n\(Did you mean (.*)\?\)$/, ': did you mean $1?')
  const extra =
    error.code === 'commander.unknownCommand' && !message.includes('did you mean')
      ? meantCommand(args[0]!)
      : error.code === 'commander.missingArgument'
        ? `: ${describeArgument(message, commandOf(program, args))}`
        : ''
  return new UsageError(message + extra, { code: error.code })
}

/** @throws UsageError for `help` with a command that there is not; commander would show its general help. */
export function checkHelp(program: Command, [first, name]: readonly string[]): void {
  if (first !== 'help' || name === undefined || name.startsWith('-') || commandOf(program, [name])) return
  const names = program.commands.map((command) => command.name())
  throw new UsageError(`unknown command '${name}'${didYouMean(name, names)}`, { name, known: names })
}

/** A task or a game without the command that takes it. */
function meantCommand(word: string): string {
  const commands: readonly (readonly [string, readonly string[]])[] = [
    ['train', tasks.map(({ name }) => name)],
    ['play', builtInNames],
  ]
  for (const [command, names] of commands) {
    const name = names.includes(word) ? word : nearest(word, names)
    if (name !== undefined) return `: did you mean selfplay ${command} ${name}?`
  }
  return ''
}

function describeArgument(message: string, command: Command | undefined): string {
  const name = /'(.*)'/.exec(message)?.[1]
  return command?.registeredArguments.find((argument) => argument.name() === name)?.description ?? ''
}
