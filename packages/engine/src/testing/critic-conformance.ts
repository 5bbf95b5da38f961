import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { CriticClient, ValueLoss } from '../critic.js'
import { InvalidInputError, NonFiniteError } from '../errors.js'

export interface CriticConformanceOptions {
  /** A new critic; every call gives byte-identical weights. */
  readonly makeCritic: () => Promise<CriticClient>
}

/** The vitest suite that every critic passes: the promises of `CriticClient`, one test each. */
export function describeCritic(name: string, { makeCritic }: CriticConformanceOptions): void {
  const open: CriticClient[] = []
  const critic = async () => {
    const made = await makeCritic()
    open.push(made)
    return made
  }
  afterEach(async () => {
    await Promise.all(open.splice(0).map((made) => made.dispose()))
  })

  describe(`${name} keeps the contract of a critic`, () => {
    values(critic)
    valueLosses(critic)
    valueGradients(critic)
    valueStates(critic)
    valueRefusals(critic)
  })
}

type Make = () => Promise<CriticClient>

const STEP = { learningRate: 1e-2, maxGradNorm: null } as const
const TARGETS = Float32Array.of(1, -0.5, 0.25)

/** Three sequences of different lengths. */
const sequencesOf = ({ info }: CriticClient): Int32Array[] =>
  [5, 3, 7].map((length, s) => Int32Array.from({ length }, (_, t) => (2 + 3 * s + 5 * t + t * t) % info.vocabSize))

const allOf = async (critic: CriticClient) => critic.values(sequencesOf(critic))

/** coef / N * sum of w * max((V - y)^2, (clipped V - y)^2). */
function formula(values: Float32Array, targets: Float32Array, { coef = 1, weights, clip }: ValueLoss): number {
  let sum = 0
  values.forEach((value, n) => {
    const error = (value - targets[n]!) ** 2
    const old = clip?.oldValues[n] ?? value
    const near = clip ? old + Math.min(Math.max(value - old, -clip.range), clip.range) : value
    sum += (weights?.[n] ?? 1) * Math.max(error, (near - targets[n]!) ** 2)
  })
  return (coef * sum) / values.length
}

function values(make: Make) {
  it('gives each sequence its own value, whatever stands beside it', async () => {
    const critic = await make()
    const sequences = sequencesOf(critic)
    const together = await critic.values(sequences)
    expect(new Set(together).size).toBe(3)
    for (const [n, sequence] of sequences.entries()) {
      const [alone] = await critic.values([sequence])
      expect(alone!).toBeCloseTo(together[n]!, 5)
    }
  })

  it('reads no token after the last, and every one before it may count', async () => {
    const critic = await make()
    const [sequence] = sequencesOf(critic)
    const [whole, cut] = await critic.values([sequence!, sequence!.slice(0, -1)])
    expect(cut).not.toBe(whole)
  })
}

function valueLosses(make: Make) {
  const losses: [string, ValueLoss][] = [
    ['plain', {}],
    ['coef', { coef: 0.6 }],
    ['weights', { weights: Float32Array.of(0, 2, 1) }],
    ['clip', { clip: { range: 0.05, oldValues: Float32Array.of(0.4, -0.2, 0.25) } }],
  ]
  it.each(losses)('%s: the loss equals its formula', async (_, loss) => {
    const critic = await make()
    const result = await critic.forwardBackwardValues(sequencesOf(critic), TARGETS, loss)
    result.values.forEach((value, n) => expect(Math.abs(value - TARGETS[n]!)).toBeGreaterThan(1e-6))
    expect(result.loss).toBeCloseTo(formula(result.values, TARGETS, loss), 4)
  })

  it('a step moves values towards their targets', async () => {
    const critic = await make()
    const errors: number[] = []
    for (let step = 0; step < 4; step++) {
      errors.push((await critic.forwardBackwardValues(sequencesOf(critic), TARGETS)).loss)
      const { gradNorm, skipped } = await critic.optimStep({ learningRate: 1e-3 })
      expect(skipped).toBe(false)
      expect(gradNorm).toBeGreaterThan(0)
    }
    expect(critic.step).toBe(4)
    expect(errors.at(-1)!).toBeLessThan(errors[0]!)
  })
}

function valueGradients(make: Make) {
  it('accumulates gradients over calls, and optimStep zeroes them', async () => {
    const [twice, once] = await Promise.all([make(), make()])
    const sequences = sequencesOf(twice)
    for (const n of [0, 1, 2]) {
      // A mean over one of three sequences: the loss of a call of three is a third of it.
      await twice.forwardBackwardValues([sequences[n]!], TARGETS.slice(n, n + 1), { coef: 1 / 3 })
    }
    await once.forwardBackwardValues(sequences, TARGETS)
    const [a, b] = [await twice.optimStep(STEP), await once.optimStep(STEP)]
    expect(Math.abs(a.gradNorm / b.gradNorm - 1)).toBeLessThan(1e-4)
    expect(await once.optimStep(STEP)).toEqual({ gradNorm: 0, skipped: true })
    expect(once.step).toBe(1)
  })

  it('a clipped value that is out of reach has no gradient', async () => {
    const critic = await make()
    const sequences = sequencesOf(critic)
    const now = await critic.values(sequences)
    // Each value has gone past its range towards the target: the clipped error is larger and does not depend on the value.
    const oldValues = now.map((value) => value - 1)
    await critic.forwardBackwardValues(
      sequences,
      now.map((value) => value + 1),
      { clip: { range: 0.1, oldValues } },
    )
    expect((await critic.optimStep(STEP)).gradNorm).toBe(0)
  })

  it('an aborted call leaves the gradients as they were', async () => {
    const [hit, plain] = await Promise.all([make(), make()])
    for (const critic of [hit, plain]) await critic.forwardBackwardValues(sequencesOf(critic), TARGETS)
    const reason = new Error('enough')
    await expect(
      hit.forwardBackwardValues(sequencesOf(hit), TARGETS, {}, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason)
    expect(await hit.optimStep(STEP)).toEqual(await plain.optimStep(STEP))
  })
}

function valueStates(make: Make) {
  it('continues bit for bit from a saved state', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'selfplay-critic-'))
    try {
      const [original, restored] = await Promise.all([make(), make()])
      const train = async (critic: CriticClient) => {
        await critic.forwardBackwardValues(sequencesOf(critic), TARGETS)
        return critic.optimStep(STEP)
      }
      await train(original)
      await original.saveState(join(directory, 'state'))
      await restored.loadState(join(directory, 'state'))
      expect(restored.step).toBe(1)
      expect(await train(restored)).toEqual(await train(original))
      expect(await allOf(restored)).toEqual(await allOf(original))
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  })
}

function valueRefusals(make: Make) {
  it('refuses what it cannot learn from', async () => {
    const critic = await make()
    const { vocabSize, contextLength } = critic.info
    const good = Int32Array.of(1, 2)
    const one = Float32Array.of(1)
    for (const sequences of [
      [],
      [new Int32Array(0)],
      [Int32Array.of(vocabSize)],
      [new Int32Array(contextLength + 1)],
    ]) {
      await expect(critic.values(sequences)).rejects.toThrow(InvalidInputError)
    }
    const bad: [Float32Array, ValueLoss][] = [
      [Float32Array.of(1, 2), {}],
      [Float32Array.of(Number.NaN), {}],
      [one, { coef: 0 }],
      [one, { weights: Float32Array.of(-1) }],
      [one, { clip: { range: 0, oldValues: one } }],
      [one, { clip: { range: 1, oldValues: new Float32Array(2) } }],
    ]
    for (const [targets, loss] of bad) {
      await expect(critic.forwardBackwardValues([good], targets, loss)).rejects.toThrow(InvalidInputError)
    }
  })
  it('names the sequence whose loss is not finite and keeps the gradients', async () => {
    const [hit, plain] = await Promise.all([make(), make()])
    for (const critic of [hit, plain]) await critic.forwardBackwardValues(sequencesOf(critic), TARGETS)
    const failure = await hit
      .forwardBackwardValues(sequencesOf(hit), Float32Array.of(1, 3e38, 0))
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(NonFiniteError)
    expect((failure as NonFiniteError).details).toMatchObject({ sequence: 1 })
    expect(await hit.optimStep(STEP)).toEqual(await plain.optimStep(STEP))
  })
}
