export { createRuntime, type RuntimeOptions } from './create.js'
export { RuntimeError, RuntimeUnavailableError } from './errors.js'
export { describeMachine, type MachineReport } from './machine.js'
export type * from './types.js'
