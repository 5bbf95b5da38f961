import type { CallOptions } from '@selfplay/engine'
import { trainRL as trainClient, type RLConfig, type RLResult } from '@selfplay/trainer'
import { trainModel, type ModelChoice, type TrainedModel } from './train-model.js'

/** {@link RLConfig} with a model in place of a client. */
export interface TrainRLConfig extends Omit<RLConfig, 'client'>, ModelChoice {}

export interface TrainRLResult extends RLResult, TrainedModel {}

/**
 * Trains a model on groups of episodes whose rewards are compared within each group. It is loaded with its tokenizer, and what
 * came of it lies in the run folder: `model/` in Hugging Face layout, beside metrics, rollouts, reports and checkpoints.
 *
 * `renderer` may be a name; default: that of a client that has one. A `dataset` that is a function gets the renderer.
 *
 * @throws ConfigError for options that cannot be used; what `loadAgents` throws; the signal's reason when aborted, after a
 *   checkpoint that `run: {directory, resume: true}` goes on from.
 */
export const trainRL = (config: TrainRLConfig, options: CallOptions = {}): Promise<TrainRLResult> =>
  trainModel<RLConfig, RLResult>(config, trainClient, options)
