/** Everything that decides what the bundled model becomes. The same recipe gives the same text, tokenizer and first weights. */
export interface Recipe {
  readonly seed: number
  /** Tokens of the vocabulary, the three special ones included. */
  readonly vocabSize: number
  /** Documents that the tokenizer learns its merges from. */
  readonly tokenizerDocuments: number
  readonly shape: ModelShape
  readonly steps: number
  /** Documents per step. */
  readonly batchSize: number
  /** Batches that are sorted by length together, so that a batch holds documents of similar length. */
  readonly batchesPerPool: number
  readonly learningRate: number
  /** Steps over which the learning rate rises linearly from 0. */
  readonly warmupSteps: number
  /** The cosine ends at this share of the learning rate. */
  readonly finalShare: number
  readonly weightDecay: number
}

export interface ModelShape {
  readonly hiddenSize: number
  readonly intermediateSize: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly contextLength: number
  readonly ropeTheta: number
  /** Standard deviation of the first weights. Hidden sizes as small as these learn far faster with more than the usual 0.02. */
  readonly initStd: number
}

/** The recipe of the model in `packages/model-tiny`. */
export const recipe: Recipe = {
  seed: 2026,
  vocabSize: 2048,
  tokenizerDocuments: 20_000,
  shape: {
    hiddenSize: 128,
    intermediateSize: 384,
    layers: 3,
    heads: 4,
    kvHeads: 2,
    contextLength: 512,
    ropeTheta: 10_000,
    initStd: 0.05,
  },
  steps: 10_000,
  batchSize: 16,
  batchesPerPool: 16,
  learningRate: 3e-3,
  warmupSteps: 100,
  finalShare: 0.03,
  weightDecay: 0,
}

/** The learning rate of a step (from 0): linear warm-up, then half a cosine down to `finalShare` of the peak. */
export function learningRateAt(step: number, { steps, warmupSteps, learningRate, finalShare }: Recipe): number {
  if (step < warmupSteps) return (learningRate * (step + 1)) / warmupSteps
  const progress = Math.min(1, (step - warmupSteps) / Math.max(1, steps - warmupSteps))
  return learningRate * (finalShare + ((1 - finalShare) * (1 + Math.cos(Math.PI * progress))) / 2)
}
