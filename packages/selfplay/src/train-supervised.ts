import type { CallOptions } from '@selfplay/engine'
import { trainSupervised as trainClient, type SupervisedConfig, type SupervisedResult } from '@selfplay/trainer'
import { trainModel, type ModelChoice, type TrainedModel } from './train-model.js'

/** {@link SupervisedConfig} with a model in place of a client. */
export interface TrainSupervisedConfig extends Omit<SupervisedConfig, 'client'>, ModelChoice {}

export interface TrainSupervisedResult extends SupervisedResult, TrainedModel {}

/**
 * Trains a model on given answers by maximum likelihood. It is loaded with its tokenizer, and what came of it lies in the run
 * folder: `model/` in Hugging Face layout, beside metrics and checkpoints.
 *
 * `renderer` may be a name; default: that of a client that has one.
 *
 * @throws ConfigError for options that cannot be used; what `loadAgents` throws; DatasetError naming the row; the signal's reason
 *   when aborted, after a checkpoint that `run: {directory, resume: true}` goes on from.
 */
export const trainSupervised = (
  config: TrainSupervisedConfig,
  options: CallOptions = {},
): Promise<TrainSupervisedResult> => trainModel<SupervisedConfig, SupervisedResult>(config, trainClient, options)
