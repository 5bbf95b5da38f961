import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SelfplayError } from '@selfplay/engine'
import type { MessageEnv } from '@selfplay/env'
import { didYouMean } from '@selfplay/renderers'
import { UsageError } from '../command/failure.js'
import { builtIn, builtInNames, type Setting } from './built-ins.js'

/** A module that should make a MessageEnv does not. */
class PlayModuleError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('play_module', message, details, options)
  }
}

const isEnv = (value: unknown): value is MessageEnv =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as Partial<MessageEnv>).initialObservation === 'function' &&
  typeof (value as Partial<MessageEnv>).step === 'function'

type Maker = ((setting: { readonly seed: number }) => unknown) & { readonly prototype?: Partial<MessageEnv> }
type Class = new (setting: { readonly seed: number }) => unknown

/**
 * The environment that is meant by a built-in name or a file. A module's default export is a function of `{seed}`, or a class
 * whose constructor takes that.
 *
 * @throws UsageError when there is no such thing; PlayModuleError when the module cannot be read or makes something else.
 */
export async function loadEnv(what: string, setting: Setting, cwd: string): Promise<MessageEnv> {
  const known = builtIn(what, setting)
  if (known) return known
  const file = resolve(cwd, what)
  const found = await stat(file).catch(() => undefined)
  if (!found?.isFile())
    throw new UsageError(
      `"${what}" is neither built in (${builtInNames.join(', ')}) nor a file${didYouMean(what, builtInNames, '; ')}`,
      { what },
    )
  if (setting.seat !== undefined) throw new UsageError('--seat is for games that are built in: leave it out')
  const maker = (await importFile(file)).default as Maker | undefined
  if (typeof maker !== 'function')
    throw new PlayModuleError(
      `${file}: expected a default export that makes a MessageEnv, such as export default () => new MyEnv(), got ${typeof maker}`,
      { file },
    )
  const given = { seed: setting.seed }
  const isClass = typeof maker.prototype?.initialObservation === 'function'
  const env: unknown = await (isClass ? new (maker as unknown as Class)(given) : maker(given))
  if (isEnv(env)) return env
  throw new PlayModuleError(`${file}: its default export made no MessageEnv: initialObservation and step are needed`, {
    file,
  })
}

async function importFile(file: string): Promise<{ readonly default?: unknown }> {
  try {
    return (await import(pathToFileURL(file).href)) as { readonly default?: unknown }
  } catch (cause) {
    const isTypeScript = (cause as { code?: unknown }).code === 'ERR_UNKNOWN_FILE_EXTENSION'
    const message = cause instanceof Error ? cause.message : String(cause)
    const advice = isTypeScript
      ? ' This version of Node reads no TypeScript: compile it, or use Node 22.18 or later.'
      : ''
    throw new PlayModuleError(`${file} cannot be loaded: ${message}${advice}`, { file }, { cause })
  }
}
