import type { Case } from '../lib/case.js'
import { decodeHalfBillion, decodeTiny } from './decode.js'
import { forwardBackward } from './forward-backward.js'
import { gemm } from './gemm.js'
import { halfBillionAdapters, halfBillionFull } from './half-billion.js'
import { learningParity } from './learning-parity.js'
import { magrpoSmall } from './magrpo-small.js'
import { magrpoTwoTurns } from './magrpo-two-turns.js'
import { memoryAdapters } from './memory-adapters.js'
import { memoryFlat } from './memory-flat.js'
import { onnxWriter } from './onnx-writer.js'
import { renderers } from './renderers.js'
import { sampler } from './sampler.js'
import { vocabulary } from './vocabulary.js'

/** What the others are held against; measured first in every call. */
export const floorsCase: Case = gemm

/** Every case, in the order of the report. */
export const cases: readonly Case[] = [
  gemm,
  forwardBackward,
  decodeTiny,
  decodeHalfBillion,
  sampler,
  magrpoSmall,
  magrpoTwoTurns,
  vocabulary,
  renderers,
  memoryAdapters,
  halfBillionAdapters,
  halfBillionFull,
  memoryFlat,
  onnxWriter,
  learningParity,
]

/** @throws RangeError naming the cases that there are. */
export function caseNamed(name: string): Case {
  const found = cases.find((one) => one.name === name)
  if (found) return found
  throw new RangeError(`there is no case "${name}": expected one of ${cases.map((one) => one.name).join(', ')}`)
}
