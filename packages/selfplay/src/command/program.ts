import { Command, Option } from 'commander'
import { addInspect, type InspectOptions } from '../inspect/command.js'
import { addPlay } from '../play/command.js'
import { JOINT_MODES, SCHEDULES, type Recipe } from '../recipes.js'
import { tasks } from '../tasks/index.js'
import { counted } from '../terminal/numbers.js'
import { wrap, type Screen } from '../terminal/screen.js'
import { version } from '../version.js'
import { UsageError } from './failure.js'
import { positive, someText, whole, wholeFrom } from './parse.js'
import { mainSettings } from './report.js'
import type { TrainFlags } from './settings.js'

interface TrainRequest {
  readonly task: string
  readonly flags: TrainFlags
  readonly wandb: { readonly project?: string; readonly entity?: string } | undefined
}

/** What the commands do. */
export interface Actions {
  train(request: TrainRequest): Promise<void>
  doctor(options: { readonly json: boolean }): Promise<void>
  inspect(run: string, options: InspectOptions): Promise<void>
}

export interface Screens {
  readonly out: Screen
  readonly err: Screen
}

interface TrainOptions extends TrainFlags {
  readonly wandb?: true
  readonly wandbProject?: string
  readonly wandbEntity?: string
  readonly verbose?: true
}

/** The `selfplay` command. Throws commander's CommanderError instead of leaving the process. */
export function createProgram(actions: Actions, { out, err }: Screens): Command {
  const program = new Command('selfplay')
    .description('Train language models by letting them play.')
    .version(version, '-v, --version', 'show the version')
    .helpOption('-h, --help', 'show this')
    .helpCommand('help [command]', 'show the help of a command')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => out.write(text),
      writeErr: (text) => err.write(text),
      getOutHelpWidth: () => out.width,
      getErrHelpWidth: () => err.width,
      outputError: () => {}, // main says it in its own words
    })
    .addHelpText('after', EXAMPLES)
  addTrain(program, actions, out)
  addInspect(program, (run, options) => actions.inspect(run, options))
  addPlay(program, out)
  program
    .command('doctor')
    .description('say what this machine offers, and end with 1 where it cannot train')
    .option('--json', 'the report as JSON')
    .option('--verbose', 'show where in the code an error arose')
    .action((options: { json?: true }) => actions.doctor({ json: options.json === true }))
  return program
}

const EXAMPLES = `
Examples:
  selfplay train length-ratio    two agents learn before your eyes
  selfplay train --help          all tasks and settings
  selfplay inspect runs/<run>    what the agents of a run answered
  selfplay play tic-tac-toe      play against a program yourself`

function addTrain(program: Command, actions: Actions, screen: Screen): void {
  program
    .command('train')
    .description('train agents on a task')
    .argument('<task>', `what to learn: ${tasks.map(({ name }) => name).join(', ')}`)
    .option(
      '--model <source>',
      'bundled:tiny, a folder in Hugging Face layout, or a hub name (default: bundled:tiny)',
      someText,
    )
    .option('--revision <name>', 'branch, tag or commit of a hub model (default: main)', someText)
    .option('--seed <n>', 'seeds every random draw (default: 0)', whole)
    .option(
      '--epochs <n>',
      "passes over the task's prompts; with --resume, more than it had lengthen the run",
      wholeFrom(1),
    )
    .option(
      '--max-steps <n>',
      'most updates; with --resume, more than it had lengthen the run (default: all of the epochs)',
      wholeFrom(1),
    )
    .option('--prompts-per-update <n>', 'prompts answered for one update', wholeFrom(1))
    .option('--generations <n>', 'answers of each agent to each prompt; they are compared, so at least 2', wholeFrom(2))
    .addOption(
      new Option(
        '--joint-mode <name>',
        'which answers are judged together: answer k of each agent, or each with each',
      ).choices(JOINT_MODES),
    )
    .option('--max-new-tokens <n>', 'longest answer, in tokens', wholeFrom(1))
    .option('--temperature <t>', 'of sampling, above 0', positive('1'))
    .option('--learning-rate <rate>', 'of AdamW, where the schedule begins', positive('5e-5'))
    .addOption(
      new Option(
        '--learning-rate-schedule <name>',
        'how the rate goes over the run; linear and cosine end at 0',
      ).choices(SCHEDULES),
    )
    .option(
      '--lora-rank <r>',
      'train adapters of this rank (alpha: twice that) on one shared model; 0: all weights',
      wholeFrom(0),
    )
    .option('--unseen-prompts <n>', 'prompts never trained on, answered before and after; 0: none', wholeFrom(0))
    .option('--output <folder>', 'the run folder (default: runs/<task>-<time>)', someText)
    .option(
      '--resume [folder]',
      'go on with a run, a finished one with more --epochs or --max-steps (default: the newest of this task)',
    )
    .option('--checkpoint-every <n>', 'updates between checkpoints; 0: only at the end', wholeFrom(0))
    .option('--logging-steps <n>', 'updates per line of output and per row for W&B', wholeFrom(1))
    .option(
      '--threads <n>',
      'to compute with (default: all cores); the same number repeats a run exactly',
      wholeFrom(1),
    )
    .option('--wandb', 'log to Weights & Biases; the key comes from WANDB_API_KEY')
    .option('--wandb-project <name>', 'project there (default: selfplay)', someText)
    .option('--wandb-entity <name>', "entity there (default: the key's own)", someText)
    .option('--verbose', 'show where in the code an error arose')
    .addHelpText('after', () => helpAfter(screen.width))
    .action((task: string, options: TrainOptions) => actions.train(requestOf(task, options)))
}

const recipeText = (recipe: Recipe): string =>
  `${recipe.epochs} epochs, ${counted(recipe.promptsPerUpdate, 'prompt')} per update, ` +
  `${recipe.maxNewTokens} tokens, ` +
  `${recipe.loraRank > 0 ? `adapters of rank ${recipe.loraRank}` : 'all weights'};\n${mainSettings(recipe)};\n` +
  `${recipe.unseenPrompts === 0 ? 'no' : recipe.unseenPrompts} unseen prompts, a checkpoint every ` +
  `${counted(recipe.checkpointEvery, 'update')}, a line every ${counted(recipe.loggingSteps, 'update')}`

/** Lines of at most `width` columns, all but the first indented as far as what stands in front of the text. */
const hung = (front: string, text: string, width: number): string =>
  front + wrap(text, Math.max(30, width - front.length)).join(`\n${' '.repeat(front.length)}`)

function helpAfter(width: number): string {
  const longest = Math.max(...tasks.map(({ name }) => name.length))
  const list = tasks.map(({ name, summary }) => hung(`  ${name.padEnd(longest)}  `, summary, width))
  return [
    '\nTasks:',
    ...list,
    '\nSettings without flags, by task and model:',
    ...tasks.flatMap(({ name, recipes: { tiny, others } }) => [
      `  ${name}, settings for the bundled model`,
      hung('    ', recipeText(tiny), width),
      `  ${name}, the tutorial's settings, for every other model`,
      hung('    ', recipeText(others), width),
    ]),
    '\nExamples:',
    '  selfplay train length-ratio',
    '  selfplay train length-ratio --model ./Qwen2.5-0.5B --lora-rank 16',
    '  selfplay train length-ratio --resume',
    '  selfplay train length-ratio --resume runs/<run> --epochs 180',
  ].join('\n')
}

function requestOf(task: string, options: TrainOptions): TrainRequest {
  const { wandb, wandbProject, wandbEntity, verbose: _, ...flags } = options
  if (!wandb && (wandbProject !== undefined || wandbEntity !== undefined)) {
    const option = wandbProject !== undefined ? '--wandb-project' : '--wandb-entity'
    throw new UsageError(`${option} says where W&B is to log, but W&B is off: add --wandb`)
  }
  const place = {
    ...(wandbProject !== undefined && { project: wandbProject }),
    ...(wandbEntity !== undefined && { entity: wandbEntity }),
  }
  return { task, flags, wandb: wandb ? place : undefined }
}
