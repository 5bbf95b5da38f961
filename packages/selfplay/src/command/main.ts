import { CommanderError } from 'commander'
import { screenOf, type ScreenStream } from '../terminal/screen.js'
import { describeFailure, exitCodeOf, Interrupted, NotReadyError } from './failure.js'
import { interruptSignal, type SignalSource } from './interrupt.js'
import { createProgram, type Actions } from './program.js'
import { checkHelp, helpHint, usageError } from './usage.js'

/** What the command takes from the process that it runs in. */
export interface Process {
  readonly stdout: ScreenStream
  readonly stderr: ScreenStream
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signals: SignalSource
  readonly cwd: () => string
  /** Leaves at once, without waiting for anything. */
  readonly exit: (code: number) => void
}

/**
 * Runs the command.
 *
 * @param args what stands behind `selfplay`.
 * @returns the exit code: 0 done, 1 failed, 2 not understood, 130 or 143 stopped by a signal.
 */
export async function main(args: readonly string[], process: Process): Promise<number> {
  const { env } = process
  const out = screenOf(process.stdout, env)
  const err = screenOf(process.stderr, env)
  const verbose = args.includes('--verbose') || Boolean(env['DEBUG'])
  const program = createProgram(actions(process), { out, err })
  try {
    checkHelp(program, args)
    await program.parseAsync([...args], { from: 'user' })
    return 0
  } catch (thrown) {
    if (thrown instanceof CommanderError && HELP.has(thrown.code)) return thrown.exitCode === 0 ? 0 : 2
    const error = thrown instanceof CommanderError ? usageError(thrown, program, args) : thrown
    if (!(error instanceof Interrupted)) {
      err.write(describeFailure(error, err, { verbose, usage: helpHint(program, args) }))
    }
    return exitCodeOf(error)
  }
}

/** What commander throws after it has shown help or the version. */
const HELP: ReadonlySet<string> = new Set(['commander.help', 'commander.helpDisplayed', 'commander.version'])

/** The commands; each loads its own code, so that `--help` need not wait for a training core. */
function actions({ stdout, env, signals, cwd, exit }: Process): Actions {
  const out = screenOf(stdout, env)
  return {
    async train({ task, flags, wandb }) {
      const { planRun } = await import('./settings.js')
      const plan = await planRun(task, flags, { cwd: cwd(), now: new Date() })
      const { runTrain } = await import('./train.js')
      const onFirst = () => out.write('\nstopping after a checkpoint (Ctrl-C again: at once)\n')
      const { signal, release } = interruptSignal({ source: signals, onFirst, onSecond: exit })
      try {
        await runTrain(plan, { screen: out, signal, cwd: cwd(), ...(wandb && { wandb }) })
      } catch (error) {
        throw isAbort(error, signal) ? signal.reason : error
      } finally {
        release()
      }
    },
    async inspect(run, options) {
      const { runInspect } = await import('../inspect/run.js')
      await runInspect(run, options, { screen: out, cwd: cwd() })
    },
    async doctor({ json }) {
      const { describeReport, examine } = await import('./doctor.js')
      const report = await examine(env)
      out.write(json ? `${JSON.stringify(report, null, 2)}\n` : describeReport(report, out))
      if (!report.ready) throw new NotReadyError('this machine cannot train yet: the report says why')
    },
  }
}

/** Some calls reject with an AbortError of their own instead of the reason. */
function isAbort(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted && (error === signal.reason || (error instanceof Error && error.name === 'AbortError'))
}
