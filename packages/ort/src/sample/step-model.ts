import type { DrawKind } from './tail.js'

/** The prompt's part of a KV cache, computed once and copied into each row that continues it. */
export interface PrefilledPrompt {
  dispose(): void
}

/**
 * What goes into a call of `step` and what comes out of it, one entry per row (slot), or one for each of the call's `steps`. All arrays
 * keep their identity over the life of the model.
 */
export interface StepRows {
  /** The token to feed, int32 [S]. */
  readonly token: Int32Array
  /** Its position, from 0: how many tokens of the row are in the cache already, int32 [S]. */
  readonly position: Int32Array
  /** Two uniform numbers in [0, 1) per row and draw, float32 [S, steps, 2]. */
  readonly uniform: Float32Array
  /** 1 / temperature; not read by greedy steps, float32 [S]. */
  readonly inverseTemperature: Float32Array
  /** Draw from that many most probable tokens; 0: no limit. Read by filtered steps only, int32 [S]. */
  readonly topK: Int32Array
  /** Nucleus mass; 1: no limit. Read by filtered steps only, float32 [S]. */
  readonly topP: Float32Array
  /** Out: the tokens drawn, int32 [S, steps]. */
  readonly drawn: Int32Array
  /** Out: their probabilities with the temperature applied and before any filter, float32 [S, steps]. */
  readonly probability: Float32Array
  /** Out: probability that the filter kept. Written by filtered steps only, float32 [S]. */
  readonly keptMass: Float32Array
}

/**
 * What the engine needs of a model: S rows that advance by one token per step, whatever the other rows hold.
 *
 * Calls are made one at a time, but for `score`.
 */
export interface StepModel {
  readonly slots: number
  readonly vocabSize: number
  /** Longest row, in tokens. */
  readonly contextLength: number
  readonly rows: StepRows
  /** Called when a run of steps begins: weights may have changed since the last one. */
  prepare(version: number): Promise<void>
  /** Keys and values of all tokens but the last, which is fed by the first step. */
  prefill(prompt: Int32Array): Promise<PrefilledPrompt>
  /** Makes room for rows of `length` tokens, keeping what the cache holds. */
  reserve(length: number): void
  /** Copies a prompt into a row. */
  load(slot: number, prompt: PrefilledPrompt): void
  /** Moves what the cache holds of a row to another, whose own is lost. */
  move(from: number, to: number): void
  /** The number of rows that a step advances when the first `used` of them are in use. */
  span(used: number): number
  /** How many plain steps may be made in one call, besides single ones. May change from call to call; 1: no more than one. */
  readonly stride: number
  /**
   * Feeds `rows.token` at `rows.position`, and draws, in the first `span(used)` rows, all in the same way; then, up to `steps` (1 or
   * `stride`), what was drawn at the position after it.
   */
  step(kind: DrawKind, extent: { readonly used: number; readonly steps: number }): Promise<void>
  /** Called when a run of steps has ended: none follows before the next `prepare`. */
  rest(): void
  /** Log-probs of tokens 1.. given those before, at 1 / temperature, float32 [T - 1]. May be called while steps run. */
  score(tokens: Int32Array, inverseTemperature: number, version: number, signal?: AbortSignal): Promise<Float32Array>
  /** Gives back sessions and cache; the next `prepare` makes them anew. */
  release(): Promise<void>
  dispose(): Promise<void>
}
