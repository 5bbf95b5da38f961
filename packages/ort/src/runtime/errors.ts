import { SelfplayError } from '@selfplay/engine'

/** Names of onnxruntime's status codes, in order. */
const ORT_CODES = [
  'OK',
  'FAIL',
  'INVALID_ARGUMENT',
  'NO_SUCHFILE',
  'NO_MODEL',
  'ENGINE_ERROR',
  'RUNTIME_EXCEPTION',
  'INVALID_PROTOBUF',
  'MODEL_LOADED',
  'NOT_IMPLEMENTED',
  'INVALID_GRAPH',
  'EP_FAIL',
  'MODEL_LOAD_CANCELED',
  'MODEL_REQUIRES_COMPILATION',
  'NOT_FOUND',
] as const

/** onnxruntime refused or failed. `details.ort` is the name of its status code where it gave one. */
export class RuntimeError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('runtime', message, details, options)
  }
}

/** A kind of runtime or an execution provider that this machine or this version does not offer. */
export class RuntimeUnavailableError extends SelfplayError {
  constructor(message: string, details?: Record<string, unknown>, options?: ErrorOptions) {
    super('runtime_unavailable', message, details, options)
  }
}

/** The name of an onnxruntime status code. */
export function ortCodeName(code: number): string {
  return ORT_CODES[code] ?? `code ${code}`
}

/** The text of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
