import { mkdir, readFile, readdir, rmdir, stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { writeFileAtomic } from '@selfplay/ort'
import { didYouMean } from '@selfplay/renderers'
import { RunFolder, RunFolderError, legalName, lockRun, runFolderName, type RunLock } from '@selfplay/trainer'
import { z } from 'zod'
import { bundledFolder } from '../agents.js'
import { JOINT_MODES, SCHEDULES } from '../recipes.js'
import { tasks, type TrainTask } from '../tasks/index.js'
import { quoted } from '../terminal/quoted.js'
import { UsageError } from './failure.js'
import { lengthFlags, updatesOf } from './length.js'

/** Version of `command.json`. */
const COMMAND_FORMAT = 1

const count = z.number().int().positive()

/** Everything that decides what a run does. The same settings on the same machine give the same run. */
export const settingsSchema = z.strictObject({
  model: z.string(),
  revision: z.string().nullable(),
  seed: z.number().int(),
  threads: count,
  /** Most updates; null: as many as the epochs have. */
  maxSteps: count.nullable(),
  epochs: count,
  promptsPerUpdate: count,
  generations: count,
  jointMode: z.enum(JOINT_MODES),
  maxNewTokens: count,
  temperature: z.number().positive(),
  learningRate: z.number().positive(),
  learningRateSchedule: z.enum(SCHEDULES),
  adamBeta2: z.number().min(0).lt(1),
  loraRank: z.number().int().nonnegative(),
  earlyTerminationThreshold: z.number().nullable(),
  rewardScale: z.number(),
  loggingSteps: count,
  checkpointEvery: z.number().int().nonnegative(),
  unseenPrompts: z.number().int().nonnegative(),
})

type RunSettings = Readonly<z.output<typeof settingsSchema>>

const commandSchema = z.strictObject({ formatVersion: z.number(), task: z.string(), settings: settingsSchema })

/** Flags of `selfplay train` as they were given; what is left out was not typed. */
export type SettingFlags = Partial<RunSettings>
export interface TrainFlags extends SettingFlags {
  readonly output?: string
  /** True: the newest run of the task, or the one in `output`. */
  readonly resume?: string | true
}

/** What is to be done, and where. */
export interface RunPlan {
  readonly task: TrainTask
  readonly settings: RunSettings
  /** Absolute. */
  readonly directory: string
  readonly resume: boolean
  /** A run that goes on to a later end than it was started with. */
  readonly lengthened: boolean
  /** Nobody has named the folder: when another run takes it first, this one takes the next number. */
  readonly unnamed: boolean
  /** Things that the user should know about the settings. */
  readonly remarks: readonly string[]
}

export interface Surroundings {
  readonly cwd: string
  readonly now: Date
}

/** @throws UsageError with the nearest task. */
function findTask(name: string): TrainTask {
  const task = tasks.find((candidate) => candidate.name === name)
  if (task) return task
  const names = tasks.map((candidate) => candidate.name)
  const hint = didYouMean(name, names) || '.'
  throw new UsageError(`there is no task "${name}"${hint} Tasks: ${names.join(', ')}`, { task: name, known: names })
}

/**
 * Works out a new run, or one that goes on.
 *
 * @throws UsageError when flags contradict each other or the run to resume; RunFolderError when a folder is taken, holds no run or
 *   one that has lost a part.
 */
export async function planRun(taskName: string, flags: TrainFlags, surroundings: Surroundings): Promise<RunPlan> {
  const task = findTask(taskName)
  return flags.resume === undefined ? planNew(task, flags, surroundings) : planResume(task, flags, surroundings)
}

async function planNew(task: TrainTask, flags: TrainFlags, { cwd, now }: Surroundings): Promise<RunPlan> {
  const { output, resume: _, ...given } = flags
  const model = given.model ?? 'bundled:tiny'
  const recipe = bundledFolder(model) === undefined ? task.recipes.others : task.recipes.tiny
  const settings: RunSettings = {
    revision: null,
    seed: 0,
    threads: availableParallelism(),
    maxSteps: null,
    ...recipe,
    ...given,
    model: await absoluteFolder(model, cwd),
  }
  const directory = output === undefined ? await freeFolder(cwd, task.name, now) : resolve(cwd, output)
  if ((await holdsCommand(directory)) || (await new RunFolder(directory).holdsRun())) throw taken(directory)
  return { task, settings, directory, resume: false, lengthened: false, unnamed: output === undefined, remarks: [] }
}

const taken = (directory: string): RunFolderError =>
  new RunFolderError(
    `${directory} already holds a run: go on with it (--resume ${quoted(directory)}), or choose another --output`,
    { directory },
  )

async function planResume(task: TrainTask, flags: TrainFlags, { cwd }: Surroundings): Promise<RunPlan> {
  const { output, resume, ...given } = flags
  const asked = typeof resume === 'string' ? resolve(cwd, resume) : undefined
  const written = output === undefined ? undefined : resolve(cwd, output)
  if (asked !== undefined && written !== undefined && asked !== written) {
    throw new UsageError(`--resume goes on in its own folder ${asked}, but --output is ${written}: leave --output out`)
  }
  const directory = asked ?? written ?? (await newestRun(cwd, task.name))
  const saved = await readCommand(directory)
  if (saved.task !== task.name) {
    throw new UsageError(`${directory} is a run of the task "${saved.task}", not "${task.name}"`, { directory })
  }
  const longer = lengthen(task, saved.settings, given)
  const settings = { ...saved.settings, ...longer, ...(given.threads !== undefined && { threads: given.threads }) }
  const typed = given.model === undefined ? given : { ...given, model: await absoluteFolder(given.model, cwd) }
  const differences = (Object.keys(typed) as (keyof RunSettings)[])
    .filter((key) => typed[key] !== settings[key])
    .map((key) => `${flagOf(key)} is ${String(typed[key])}, the run has ${String(settings[key] ?? 'none')}`)
  if (differences.length > 0) {
    throw new UsageError(
      `a run goes on with the settings that it was started with, or to a later end: ${differences.join('; ')}. ` +
        'Leave them out, or start a new run',
      { differences },
    )
  }
  const moved = settings.threads !== saved.settings.threads
  const remark = `${settings.threads} threads instead of the run's ${saved.settings.threads}: numbers may differ in their last digits`
  const remarks = moved ? [remark] : []
  // Killed between writing down its settings and its beginning: there is nothing to go on from.
  const begun = await new RunFolder(directory).holdsRun()
  if (!begun) remarks.push('the run was stopped before it had begun: it starts over')
  return { task, settings, directory, resume: begun, lengthened: longer !== null, unnamed: false, remarks }
}

/**
 * The length that a run is to have instead of its own; null when it keeps that, or is asked for a shorter one.
 *
 * @throws UsageError when the flags alone would not make it longer, with those that do.
 */
function lengthen(
  task: TrainTask,
  saved: RunSettings,
  given: SettingFlags,
): Pick<RunSettings, 'epochs' | 'maxSteps'> | null {
  const { epochs, maxSteps } = { ...saved, ...given }
  const asked = { ...saved, epochs, maxSteps }
  const [before, after] = [updatesOf(task, saved), updatesOf(task, asked)]
  if (after > before) return { epochs, maxSteps }
  const inEpochs = epochs > saved.epochs ? updatesOf(task, { ...asked, maxSteps: null }) : 0
  const wanted = Math.max(inEpochs, maxSteps === saved.maxSteps ? 0 : (maxSteps ?? 0))
  if (after < before || wanted <= before) return null
  throw new UsageError(
    `the run has ${before} updates (${lengthText(saved)}) and would not get longer by that: add ` +
      lengthFlags(task, asked, wanted),
    { updates: before, wanted },
  )
}

const lengthText = ({ epochs, maxSteps }: RunSettings): string =>
  `--epochs ${epochs}${maxSteps === null ? '' : `, --max-steps ${maxSteps}`}`

/** `maxNewTokens` as it is typed: `--max-new-tokens`. */
export const flagOf = (key: string): string => `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`

/** A model that is a folder gets its whole path, so that the run can go on from anywhere; other names stay. */
async function absoluteFolder(model: string, cwd: string): Promise<string> {
  const path = resolve(cwd, model)
  return model !== '' && (await isFolder(path)) ? path : model
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )

const commandPath = (directory: string): string => join(directory, 'command.json')

const holdsCommand = (directory: string): Promise<boolean> =>
  stat(commandPath(directory)).then(
    () => true,
    () => false,
  )

/** `runs/<task>-<time>`, with a number behind it when that is taken. */
async function freeFolder(cwd: string, task: string, now: Date): Promise<string> {
  const name = runFolderName(task, now)
  for (let attempt = 1; ; attempt++) {
    const directory = join(cwd, 'runs', attempt === 1 ? name : `${name}-${attempt}`)
    if (!(await isFolder(directory))) return directory
  }
}

/** The folder of a run while it is in use. */
export interface ClaimedFolder {
  /** With another folder where somebody else was faster. */
  readonly plan: RunPlan
  readonly lock: RunLock
  /** Lets go of the folder, and removes it again if it is empty. */
  readonly release: () => Promise<void>
}

/**
 * Makes the folder of a run this process's own: two runs that start in the same second get one each, and a run that somebody is
 * training already is refused.
 *
 * @throws RunLockedError, RunFolderError
 */
export async function claimFolder(planned: RunPlan, cwd: string, now: Date): Promise<ClaimedFolder> {
  const { plan, remove } = await makeFolder(planned, cwd, now)
  const lock = await lockRun(plan.directory).catch(async (error: unknown) => {
    await remove()
    throw error
  })
  const release = async () => {
    await lock.release()
    await remove()
  }
  // Somebody may have begun and ended a run here since it was planned.
  try {
    if (!plan.resume && (await new RunFolder(plan.directory).holdsRun())) throw taken(plan.directory)
  } catch (error) {
    await release()
    throw error
  }
  const remarks = lock.takenOver === null ? [] : [`the folder's lock was left over from ${lock.takenOver}`]
  return { plan: { ...plan, remarks: [...plan.remarks, ...remarks] }, lock, release }
}

/** Makes the folder that nobody has named, and can remove it again if it is empty. */
async function makeFolder(plan: RunPlan, cwd: string, now: Date) {
  if (!plan.unnamed) return { plan, remove: async () => {} }
  for (let { directory } = plan; ; directory = await freeFolder(cwd, plan.task.name, now)) {
    try {
      await mkdir(dirname(directory)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      })
      await mkdir(directory)
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST') continue
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new RunFolderError(
        `${directory} could not be made: ${reason}. Choose another place with --output`,
        { directory },
        { cause },
      )
    }
    const remove = async () => {
      for (const folder of [directory, dirname(directory)]) await rmdir(folder).catch(() => {})
    }
    return { plan: { ...plan, directory }, remove }
  }
}

async function newestRun(cwd: string, task: string): Promise<string> {
  const runs = join(cwd, 'runs')
  const names = (await readdir(runs).catch(() => [])).filter((name) => name.startsWith(`${legalName(task)}-`))
  for (const name of names.sort().reverse()) if (await holdsCommand(join(runs, name))) return join(runs, name)
  throw new RunFolderError(`there is no run of ${task} in ${runs} to resume: give its folder, or start a new run`, {
    directory: runs,
  })
}

/** Writes down what a run was started with. */
export async function writeCommand({ directory, task, settings }: RunPlan): Promise<void> {
  const command = { formatVersion: COMMAND_FORMAT, task: task.name, settings }
  await writeFileAtomic(commandPath(directory), `${JSON.stringify(command, null, 2)}\n`)
}

/** @throws RunFolderError when there is none, it is damaged, or it is of a newer format. */
async function readCommand(directory: string): Promise<z.output<typeof commandSchema>> {
  const path = commandPath(directory)
  let value: unknown
  try {
    value = JSON.parse(await readFile(path, 'utf8'))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new RunFolderError(`${directory} holds no run of selfplay train: expected ${path}. Check the path`, {
        directory,
      })
    }
    throw new RunFolderError(`${path} is not readable JSON: restore it, or start a new run`, { path }, { cause })
  }
  const version = (value as { formatVersion?: unknown } | null)?.formatVersion
  if (typeof version === 'number' && version > COMMAND_FORMAT) {
    throw new RunFolderError(
      `${path} has format version ${version}; this version of selfplay reads up to ${COMMAND_FORMAT}: update it`,
      { formatVersion: version },
    )
  }
  const parsed = commandSchema.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  throw new RunFolderError(
    `${path} is damaged: ${issue?.path.map(String).join('.')}: ${issue?.message}. Restore it, or start a new run`,
    { path },
  )
}
