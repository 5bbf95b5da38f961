import type { DrawKind } from './tail.js'

/** The prompt's part of a KV cache, computed once and copied into each row that continues it. */
export interface PrefilledPrompt {
  dispose(): void
}

/**
 * What goes into a step and what comes out of it, one entry per row (slot). All arrays keep their identity over the life of the model.
 */
export interface StepRows {
  /** The token to feed, int32 [S]. */
  readonly token: Int32Array
  /** Its position, from 0: how many tokens of the row are in the cache already, int32 [S]. */
  readonly position: Int32Array
  /** Two uniform numbers in [0, 1) per row, float32 [S, 2]. */
  readonly uniform: Float32Array
  /** 1 / temperature; not read by greedy steps, float32 [S]. */
  readonly inverseTemperature: Float32Array
  /** Draw from that many most probable tokens; 0: no limit. Read by filtered steps only, int32 [S]. */
  readonly topK: Int32Array
  /** Nucleus mass; 1: no limit. Read by filtered steps only, float32 [S]. */
  readonly topP: Float32Array
  /** Out: the token drawn, int32 [S]. */
  readonly drawn: Int32Array
  /** Out: its probability with the temperature applied and before any filter, float32 [S]. */
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
  /** Feeds `rows.token` at `rows.position`, and draws, all rows in the same way. */
  step(kind: DrawKind): Promise<void>
  /** Log-probs of tokens 1.. given those before, at 1 / temperature, float32 [T - 1]. May be called while steps run. */
  score(tokens: Int32Array, inverseTemperature: number, version: number, signal?: AbortSignal): Promise<Float32Array>
  /** Gives back sessions and cache; the next `prepare` makes them anew. */
  release(): Promise<void>
  dispose(): Promise<void>
}
