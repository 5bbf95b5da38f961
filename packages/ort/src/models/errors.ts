import { SelfplayError } from '@selfplay/engine'
import { printable } from '../checkpoint/json.js'

/** A `config.json` that lacks a key, or holds a value of the wrong kind. */
export class ModelConfigError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('model_config', printable(message), details)
  }
}

/** A model that no graph here computes: another architecture, activation or rotary scaling. */
export class UnsupportedModelError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('unsupported_model', printable(message), details)
  }
}

/** The tensors of a model folder are not those that its config calls for. */
export class WeightMismatchError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>) {
    super('weight_mismatch', printable(message), details)
  }
}
