import { Argument, Option, type Command } from 'commander'
import { someText, wholeFrom } from '../command/parse.js'

export interface InspectOptions {
  /** From 1; default: the newest, or the newest that has `prompt`. */
  readonly update?: number
  /** Index in the data set, from 1; default: all of the update. */
  readonly prompt?: number
  /** Whole texts instead of a line each. */
  readonly full?: true
  /** Every joint answer; default: the best and the worst of each node. With `find`: every node; default: the newest. */
  readonly all?: true
  /** Which nodes contain this text, instead of a tree. */
  readonly find?: string
}

/** Adds `selfplay inspect` to the program. */
export function addInspect(program: Command, inspect: (run: string, options: InspectOptions) => Promise<void>): void {
  program
    .command('inspect')
    .description('show the answers of an update as trees: rewards, returns, advantages, and what ended')
    .addArgument(new Argument('<run>', 'the run folder').argParser(someText))
    .option(
      '--update <n>',
      'which update, counted from 1 (default: the newest that has the prompt; with --find: all)',
      wholeFrom(1),
    )
    .option(
      '--prompt <n>',
      'only this prompt of the data set, counted from 1 (default: all of the update)',
      wholeFrom(1),
    )
    .option(
      '--find <text>',
      'list the nodes whose prompts or answers contain it, with their rewards; upper and lower case are the same',
      someText,
    )
    .option(
      '--all',
      'every joint answer (default: the best 3 and the worst 3 of each node); with --find: every node (default: the newest 20)',
    )
    .option('--full', 'whole texts instead of a line each; not with --find')
    .addOption(new Option('--verbose', 'show where in the code an error arose'))
    .addHelpText(
      'after',
      [
        '\nA node is one prompt at one turn, with all joint answers to it.',
        '\nExamples:',
        '  selfplay inspect runs/length-ratio-2026-11-29T185557Z',
        '  selfplay inspect runs/length-ratio-2026-11-29T185557Z --find dragon',
        '  selfplay inspect runs/length-ratio-2026-11-29T185557Z --update 12 --prompt 3 --full',
      ].join('\n'),
    )
    .action((run: string, options: InspectOptions) => inspect(run, options))
}
