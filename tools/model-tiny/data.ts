import type { Datum } from '@selfplay/engine'
import type { Encoder } from './encoder.js'
import type { Recipe } from './recipe.js'
import { createRandom } from './text/random.js'
import { documentAt, type Document, type Kind, type Split } from './text/documents.js'

/**
 * A document as a training sequence: T = its tokens but the last; position t predicts token t + 1. Only the completion and the token that ends it
 * are trained: what to write, and when to stop.
 */
export function toDatum(document: Document, encoder: Encoder): Datum {
  const prompt = encoder.encode(document.prompt)
  const completion = encoder.encode(document.completion + document.end)
  const ids = Int32Array.from([...prompt, ...completion])
  const weights = new Float32Array(ids.length - 1)
  weights.fill(1, prompt.length - 1)
  return { tokens: ids.subarray(0, -1), targets: ids.subarray(1), weights }
}

/** The batch of a step. A function of the recipe and the step alone, so that training can go on from any step. */
export function createBatches(recipe: Recipe, encoder: Encoder): (step: number) => readonly Datum[] {
  let poolNumber = -1
  let pool: Datum[][] = []
  return (step) => {
    const wanted = Math.floor(step / recipe.batchesPerPool)
    if (wanted !== poolNumber) [pool, poolNumber] = [makePool(recipe, encoder, wanted), wanted]
    return pool[step % recipe.batchesPerPool] as Datum[]
  }
}

function makePool({ seed, batchSize, batchesPerPool }: Recipe, encoder: Encoder, number: number): Datum[][] {
  const size = batchSize * batchesPerPool
  const data = Array.from({ length: size }, (_, i) => toDatum(documentAt(seed, number * size + i), encoder))
  data.sort((a, b) => a.tokens.length - b.tokens.length)
  const batches = Array.from({ length: batchesPerPool }, (_, i) => data.slice(i * batchSize, (i + 1) * batchSize))
  return createRandom(seed, -1 - number).shuffle(batches)
}

/** `count` documents of a split as training sequences. */
export const datumsOf = (seed: number, count: number, encoder: Encoder, split: Split, kind?: Kind): Datum[] =>
  Array.from({ length: count }, (_, i) => toDatum(documentAt(seed, i, split, kind), encoder))
