import { join, resolve } from 'node:path'
import { CheckpointError, InvalidInputError, type CallOptions } from '@selfplay/engine'
import { z } from 'zod'
import type { WriteOptions } from './atomic.js'
import type { ParameterSpec } from './export.js'
import { checkJson, excerpt, printable, readJsonObject, type JsonValue } from './json.js'
import { openManifestedFolder, writeManifestedFolder, type FolderKind } from './manifest.js'
import { damaged } from './problem.js'
import { openSafetensors, readTensor, requireTensor, type TensorEntry } from './safetensors.js'
import { writeTensors, type TensorSource } from './safetensors-writer.js'

/** The folder of one client's training state. */
export const TRAINING_STATE: FolderKind = { kind: 'training_state', formatVersion: 1 }

/** What is kept of each trained parameter: its value, and Adam's running means of the gradient and of its square. */
export const STATE_PARTS = ['weight', 'adam_m', 'adam_v'] as const
export type StatePart = (typeof STATE_PARTS)[number]

export interface TrainingStateInput {
  /** Optimiser steps so far. */
  readonly step: number
  /** What the state belongs to (architecture, sizes, rank, ...); compare it when loading. */
  readonly identity: Readonly<Record<string, JsonValue>>
  /** Trained parameters: all weights, or an adapter's matrices. */
  readonly parameters: readonly ParameterSpec[]
  /** One part of one parameter, float32, row-major. Called once for each. */
  readonly read: (part: StatePart, name: string) => Float32Array | Promise<Float32Array>
  /** What else must come back: random streams, schedules, baselines. */
  readonly extra?: Readonly<Record<string, JsonValue>>
}

/** A training state on disk whose every file was checked. */
export interface TrainingState {
  readonly path: string
  readonly step: number
  readonly identity: Readonly<Record<string, JsonValue>>
  readonly parameters: readonly ParameterSpec[]
  readonly extra: Readonly<Record<string, JsonValue>>
  /** One part of one parameter, bit for bit as it was saved, into `into` when given. */
  read(part: StatePart, name: string, options?: CallOptions & { readonly into?: Float32Array }): Promise<Float32Array>
  /**
   * Refuses a state of another model before anything is changed.
   * @throws CheckpointError listing what is missing, unknown or of another shape.
   */
  expect(parameters: readonly ParameterSpec[]): void
}

const stateSchema = z.strictObject({
  step: z.int().nonnegative(),
  identity: z.record(z.string(), z.json()),
  parameters: z.array(z.string()),
  extra: z.record(z.string(), z.json()),
})

const tensorName = (part: StatePart, name: string): string => `${part}/${name}`

/**
 * Saves a training state, always in float32, into a folder with a manifest, whole or not at all.
 *
 * @throws CheckpointError when the disk refuses; InvalidInputError when `extra` or `identity` is not plain JSON or an array
 *   does not fit its shape. The state that stood there before is unchanged then.
 */
export async function saveTrainingState(
  directory: string,
  state: TrainingStateInput,
  options: WriteOptions = {},
): Promise<void> {
  const { step, identity, parameters, read, extra = {} } = state
  if (!Number.isSafeInteger(step) || step < 0)
    throw new InvalidInputError(`step must be a whole number >= 0, got ${step}`, { step })
  checkJson(identity, 'identity')
  checkJson(extra, 'extra')
  const tensors = STATE_PARTS.flatMap((part) =>
    parameters.map(({ name, shape }): TensorSource<'F32'> => {
      return { name: tensorName(part, name), shape, dtype: 'F32', read: () => read(part, name) }
    }),
  )
  const body = { step, identity, parameters: parameters.map(({ name }) => name), extra }
  await writeManifestedFolder(
    directory,
    TRAINING_STATE,
    async (staging) => {
      await staging.write('state.json', `${JSON.stringify(body, null, 2)}\n`)
      await staging.write('state.safetensors', (sink) => writeTensors(sink, tensors, options))
    },
    options,
  )
}

/**
 * Opens what {@link saveTrainingState} wrote, after checking every file's hash and that each parameter has all its parts.
 *
 * @throws CheckpointError when anything is missing, damaged or newer.
 */
export async function openTrainingState(directory: string, options: CallOptions = {}): Promise<TrainingState> {
  const path = resolve(directory)
  await openManifestedFolder(path, TRAINING_STATE, options)
  const place = join(path, 'state.json')
  const parsed = stateSchema.safeParse((await readJsonObject(place, options)).value)
  if (!parsed.success) throw damaged(place, 'a training state', printable(z.prettifyError(parsed.error)))
  const { tensors } = await openSafetensors(join(path, 'state.safetensors'), options)
  const { step, identity, extra } = parsed.data
  const parameters = parsed.data.parameters.map((name) =>
    completeParameter(tensors, name, join(path, 'state.safetensors')),
  )
  return {
    path,
    step,
    identity,
    extra,
    parameters,
    read: async (part, name, call) => readTensor(requireTensor(tensors, tensorName(part, name), path), call),
    expect: (expected) => compareParameters(path, parameters, expected),
  }
}

function completeParameter(tensors: ReadonlyMap<string, TensorEntry>, name: string, place: string): ParameterSpec {
  const [weight, ...moments] = STATE_PARTS.map((part) => requireTensor(tensors, tensorName(part, name), place))
  const shape = weight!.shape
  for (const entry of [weight!, ...moments]) {
    const same = entry.shape.length === shape.length && entry.shape.every((size, axis) => size === shape[axis])
    if (entry.dtype !== 'F32' || !same) {
      throw damaged(
        place,
        `${excerpt(entry.name)} as F32 [${shape.join(', ')}]`,
        `${entry.dtype} [${entry.shape.join(', ')}]`,
      )
    }
  }
  return { name, shape }
}

function compareParameters(path: string, saved: readonly ParameterSpec[], expected: readonly ParameterSpec[]): void {
  const shapes = new Map(saved.map(({ name, shape }) => [name, shape.join(', ')]))
  const missing = expected.filter(({ name }) => !shapes.has(name)).map(({ name }) => name)
  const wrong = expected.filter(({ name, shape }) => shapes.has(name) && shapes.get(name) !== shape.join(', '))
  const known = new Set(expected.map(({ name }) => name))
  const unknown = saved.filter(({ name }) => !known.has(name)).map(({ name }) => name)
  const problems = [
    missing.length > 0 && `${missing.length} missing (${excerpt(missing[0]!)}, ...)`,
    unknown.length > 0 && `${unknown.length} unknown (${excerpt(unknown[0]!)}, ...)`,
    ...wrong
      .slice(0, 1)
      .map(
        ({ name, shape }) =>
          `${wrong.length} of another shape (${excerpt(name)} [${shapes.get(name)}], not [${shape.join(', ')}], ...)`,
      ),
  ].filter((problem) => problem !== false)
  if (problems.length === 0) return
  throw new CheckpointError(
    `${path}: expected the state of this model's ${expected.length} trained parameters, got ${saved.length}: ${problems.join('; ')}. Load it into the model that it was saved from`,
    { path, missing, unknown, wrongShape: wrong.map(({ name }) => name) },
  )
}
