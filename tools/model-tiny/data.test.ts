import { checkDatums } from '@selfplay/engine'
import { describe, expect, it } from 'vitest'
import { countPieces, trainBpe } from './bpe.js'
import { createBatches, toDatum } from './data.js'
import { createEncoder } from './encoder.js'
import { learningRateAt, recipe } from './recipe.js'
import { documentAt, documentText, SPECIAL_TOKENS } from './text/documents.js'

const texts = Array.from({ length: 1000 }, (_, i) => documentText(documentAt(1, i)))
const bpe = trainBpe(countPieces(texts.flatMap((text) => text.split(/<\|\w+\|>/))), 800)
const encoder = createEncoder(bpe, SPECIAL_TOKENS)
const small = { ...recipe, batchSize: 4, batchesPerPool: 3 }

describe('toDatum', () => {
  it('trains the completion and its end, not the prompt', () => {
    const document = documentAt(1, 3)
    const { tokens, targets, weights } = toDatum(document, encoder)
    const prompt = encoder.encode(document.prompt)
    const completion = encoder.encode(document.completion + document.end)
    expect([...tokens, targets.at(-1)]).toEqual([...prompt, ...completion])
    const trained = [...targets].filter((_, t) => weights?.[t] === 1)
    expect(trained).toEqual(completion)
    expect(trained.at(-1)).toBe(encoder.specialIds.get(document.end))
  })
})

describe('createBatches', () => {
  it('gives each step the same batch whatever was asked for before', () => {
    const batchAt = createBatches(small, encoder)
    const inOrder = Array.from({ length: 7 }, (_, step) => batchAt(step))
    const resumed = createBatches(small, encoder)
    expect(resumed(5)).toEqual(inOrder[5])
    expect(resumed(2)).toEqual(inOrder[2])
  })

  it('covers every document of a pool once, similar lengths together, within the context', () => {
    const batchAt = createBatches(small, encoder)
    const pool = [0, 1, 2].map((step) => batchAt(step))
    checkDatums(pool.flat(), { vocabSize: encoder.vocabSize, contextLength: recipe.shape.contextLength })
    const expected = Array.from({ length: 12 }, (_, i) => toDatum(documentAt(small.seed, i), encoder).tokens.length)
    expect(
      pool
        .flat()
        .map(({ tokens }) => tokens.length)
        .toSorted((a, b) => a - b),
    ).toEqual(expected.toSorted((a, b) => a - b))
    const ranges = pool.map((batch) => batch.map(({ tokens }) => tokens.length)).toSorted((a, b) => a[0]! - b[0]!)
    for (let i = 1; i < ranges.length; i++) expect(ranges[i]![0]).toBeGreaterThanOrEqual(ranges[i - 1]!.at(-1)!)
  })
})

describe('learningRateAt', () => {
  it('rises linearly, then falls along a cosine to its floor', () => {
    const { warmupSteps, learningRate, finalShare, steps } = recipe
    expect(learningRateAt(0, recipe)).toBeCloseTo(learningRate / warmupSteps, 12)
    expect(learningRateAt(warmupSteps - 1, recipe)).toBeCloseTo(learningRate, 12)
    expect(learningRateAt((steps + warmupSteps) / 2, recipe)).toBeCloseTo((learningRate * (1 + finalShare)) / 2, 6)
    expect(learningRateAt(steps, recipe)).toBeCloseTo(learningRate * finalShare, 12)
  })
})
