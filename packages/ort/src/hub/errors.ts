import { SelfplayError } from '@selfplay/engine'

/** A model could not be had from the hub: unknown, gated, unreachable, or not what it said it would be. */
export class HubError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('hub', message, details)
  }
}

/** An optional package that this call needs is not installed. */
export class MissingPackageError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('missing_package', message, details)
  }
}
