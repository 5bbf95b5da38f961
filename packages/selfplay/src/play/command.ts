import { Argument, Option, type Command } from 'commander'
import { someText, whole, wholeFrom } from '../command/parse.js'
import type { Screen } from '../terminal/screen.js'
import { builtInNames } from './built-ins.js'

export interface PlayOptions {
  /** Seeds the game and its other players. */
  readonly seed?: number
  /** From 1; default: the first. */
  readonly seat?: number
}

/** Adds `selfplay play` to the program. */
export function addPlay(program: Command, screen: Screen): void {
  program
    .command('play')
    .description("take the policy's place: read what it is told, and type what it would say")
    .addArgument(
      new Argument(
        '<what>',
        `${builtInNames.join(', ')}, or a module file whose default export makes a MessageEnv: a function of { seed }, or a class`,
      ).argParser(someText),
    )
    .option('--seed <n>', 'of the game and its other players (default: another one each time)', whole)
    .option('--seat <n>', 'which seat of a built-in game is yours, counted from 1 (default: 1)', wholeFrom(1))
    .addOption(new Option('--verbose', 'show where in the code an error arose'))
    .addHelpText('after', '\nExamples:\n  selfplay play tic-tac-toe --seat 2\n  selfplay play ./my-env.js --seed 1')
    .action(async (what: string, options: PlayOptions) => {
      const { runPlay } = await import('./run.js')
      await runPlay(what, options, { screen, input: process.stdin, cwd: process.cwd(), signals: process })
    })
}
