import { Argument, Option, type Command } from 'commander'
import { someText, wholeFrom } from '../command/parse.js'

export interface InspectOptions {
  /** From 1; default: the newest. */
  readonly update?: number
  /** Index in the data set, from 1; default: all of the update. */
  readonly prompt?: number
  /** Whole texts instead of a line each. */
  readonly full?: true
  /** Every joint answer; default: the best and the worst of each node. */
  readonly all?: true
}

/** Adds `selfplay inspect` to the program. */
export function addInspect(program: Command, inspect: (run: string, options: InspectOptions) => Promise<void>): void {
  program
    .command('inspect')
    .description('show the answers of an update as trees: rewards, returns, advantages, and what ended')
    .addArgument(new Argument('<run>', 'the run folder').argParser(someText))
    .option('--update <n>', 'which one (default: the newest)', wholeFrom(1))
    .option('--prompt <n>', 'only this prompt of the data set, counted from 1', wholeFrom(1))
    .option('--all', 'every joint answer (default: the best 3 and the worst 3 of each node)')
    .option('--full', 'whole texts instead of a line each')
    .addOption(new Option('--verbose', 'show where in the code an error arose'))
    .action((run: string, options: InspectOptions) => inspect(run, options))
}
