import { NonFiniteError } from '@selfplay/engine'

/** Whether an error says that a policy itself is broken, and not one step of it: a checkpoint of it would be of no use. */
export const isBrokenPolicy = (error: unknown): boolean =>
  error instanceof NonFiniteError && error.details['policy'] === 'broken'
