import type { TrainingClient } from '@selfplay/engine'
import type { Tokenizer } from '@selfplay/renderers'
import { z } from 'zod'
import type { Evaluator } from '../evaluate/evaluator.js'
import type { Tracker } from '../track/tracker.js'
import type { RunLock } from './lock.js'
import type { RunNotice } from './loop-session.js'

/** Whether a value is an object with these members. */
export const has =
  <T>(...names: readonly PropertyKey[]) =>
  (value: unknown): value is T =>
    typeof value === 'object' && value !== null && names.every((name) => name in value)
export const isFunction = (value: unknown): boolean => typeof value === 'function'

/** A part of a config that is no plain data. `expected` says what it is, in words. */
export const livePart = <T>(expected: string, check: (value: unknown) => boolean) =>
  z.custom<T>(check, { error: `expected ${expected}` })

const lockSchema = livePart<RunLock>('a lock of lockRun', (value) =>
  isFunction((value as Partial<RunLock> | null)?.release),
)

/** A {@link RunTarget} as it is given. */
export const runSchema = z.strictObject({
  directory: z.string().min(1),
  resume: z.union([z.boolean(), z.string().min(1)]).default(false),
  rollouts: z.boolean().default(true),
  lock: lockSchema.optional(),
})

/** Parts that every loop of one policy has. */
export const liveParts = {
  client: livePart<TrainingClient>('a training client', has('forwardBackward', 'optimStep', 'sampler')),
  tokenizer: livePart<Tokenizer | Pick<Tokenizer, 'decode'>>('a tokenizer', has('decode')).optional(),
  evaluators: z
    .array(livePart<Evaluator>('an evaluator: {name, evaluate}', has('name', 'evaluate')))
    .readonly()
    .default([]),
  run: z
    .union([z.string().min(1), runSchema])
    .nullable()
    .default(null),
  trackers: z
    .array(livePart<Tracker>('a tracker', has('log', 'finish')))
    .readonly()
    .default([]),
  onNotice: livePart<(notice: RunNotice) => void>('a function', isFunction).optional(),
}
