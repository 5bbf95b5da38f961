import { RendererError } from '@selfplay/renderers'
import { EnvError } from '../errors.js'

/** Whose code a failure came out of. */
export type Boundary = 'builder' | 'env' | 'renderer' | 'sampler' | 'reward' | 'cleanup'

/** A rollout, or what surrounds it, failed. `cause` is the error as it was thrown. */
export class RolloutError extends EnvError {
  readonly boundary: Boundary

  constructor(boundary: Boundary, cause: unknown) {
    super(`${boundary}_failed`, `${boundary}: ${messageOf(cause)}`, { boundary, code: codeOf(cause) }, { cause })
    this.boundary = boundary
  }
}

/** A failure as plain data. It is no reward and no filtered sample: what failed has no result. */
export interface RolloutFailure {
  /** The member of the group, or null where the whole group is meant. */
  readonly slot: number | null
  /** Attempts of this member before. */
  readonly attempt: number
  readonly boundary: Boundary
  /** The `code` of the error, else its name. */
  readonly code: string
  readonly message: string
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The code of an error: its own `code`, else its name. */
export function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return typeof error
  const { code, name } = error as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : 'Error'
}

export function failureOf(error: unknown, slot: number | null, attempt: number): RolloutFailure {
  const known = error instanceof RolloutError
  const cause = known ? error.cause : error
  return { slot, attempt, boundary: known ? error.boundary : 'env', code: codeOf(cause), message: messageOf(cause) }
}

/**
 * Runs a call over a boundary.
 *
 * @throws RolloutError naming the boundary; the signal's own reason passes as it is
 */
export async function across<T>(boundary: Boundary, signal: AbortSignal, call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof RolloutError) throw error
    throw new RolloutError(boundary === 'env' && error instanceof RendererError ? 'renderer' : boundary, error)
  }
}
