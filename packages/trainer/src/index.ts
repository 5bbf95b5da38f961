/** Rollouts, credit and training loops over any training core. */
export * from './errors.js'
export { type Batch, type Dataset, type BatchOptions, type RowAt, batchCount, batches, epochOrder } from './dataset.js'
export { scheduleFactor, type Schedule } from './schedule.js'
export {
  CHECKPOINT_FORMAT,
  checkpointProblem,
  listCheckpoints,
  newestCheckpoint,
  type SkippedCheckpoint,
} from './run/checkpoint.js'
export { JsonlFile } from './run/files.js'
export { lockRun, type RunLock } from './run/lock.js'
export { legalName, runFolderName } from './run/legal-name.js'
export { RUN_FORMAT, RunFolder, type LineLengths } from './run/run-folder.js'
export type { MetricsRow, RunInfo, RunOutcome, Tracker } from './track/tracker.js'
export { wandbTracker, type WandbOptions } from './track/wandb.js'
export {
  frozenAgent,
  scriptedAgent,
  seatAgents,
  Samplers,
  type Agent,
  type FrozenAgent,
  type Policy,
  type ScriptedAgent,
  type Seat,
  type SeatSettings,
  type Table,
  type TrainableAgent,
} from './magrpo/agents.js'
export * from './magrpo/advantages.js'
export {
  analyseTrees,
  type AgentGroup,
  type AnalyseOptions,
  type AnalysedNode,
  type Analysis,
} from './magrpo/analyse.js'
export * from './magrpo/buffer.js'
export {
  comlrlDefaults,
  lossOf,
  magrpoConfigSchema,
  resolveConfig,
  type AgentSettings,
  type EarlyTermination,
  type MAGRPOConfig,
  type ResolvedConfig,
} from './magrpo/config.js'
export { completionReturns, creditTree, type CreditOptions, type CreditedNode } from './magrpo/credit.js'
export { toDatum, toSamples, type Sample } from './magrpo/datums.js'
export { evaluateRows, type EvaluateOptions, type Evaluation, type EvaluationChain } from './magrpo/evaluate.js'
export { RewardFailures, judgeNode, readRewards, type NodeRewards } from './magrpo/judge.js'
export { learn, type AgentLearning, type LearnOptions, type Learning } from './magrpo/learn.js'
export { learningMetrics, samplingMetrics, turnMetrics } from './magrpo/metrics.js'
export type { Notice, NoticeCode } from './magrpo/notices.js'
export { encodePrompt, formatPrompt } from './magrpo/prompts.js'
export {
  fromRecords,
  parseRecord,
  rolloutRecordSchema,
  toRecord,
  ROLLOUT_FORMAT,
  type RolloutRecord,
} from './magrpo/record.js'
export * from './magrpo/reference-kl.js'
export type { CentralizedAdapter, RoleView } from './magrpo/roles.js'
export { sampleNodes, toCompletion, type SamplingOptions } from './magrpo/sampling.js'
export { MODEL_MANIFEST_FORMAT } from './magrpo/save-model.js'
export { growTrees, jointGenerations, type TreeOptions, type TreeTimes, type Trees } from './magrpo/tree.js'
export type { EvaluateArgs, TrainResult } from './magrpo/agent-loop.js'
export { MAGRPOTrainer, type MAGRPOTrainerOptions, type MAGRPOUpdate } from './magrpo/trainer.js'
export type * from './magrpo/types.js'
export { runUpdate, type UpdateContext, type UpdateResult } from './magrpo/update.js'
export type { LoopState, RunNotice } from './run/loop-session.js'
export type { RunTarget } from './run/resume.js'
export { rolloutEvaluator, type RolloutEvaluatorOptions } from './rl/rollout-evaluator.js'
export { runEvaluators, type EvaluationContext, type Evaluator } from './evaluate/evaluator.js'
export {
  assembleDatums,
  creditBatch,
  oldestVersion,
  type CreditBatchOptions,
  type CreditedGroup,
  type GroupUse,
  type MemberDatums,
} from './rl/assemble.js'
export { rlLoss, type RLSettings, type ResolvedRLSettings } from './rl/config.js'
export {
  groupCredit,
  groupRewards,
  turnReturns,
  type CreditOptions as GroupCreditOptions,
  type EpisodeRewards,
  type GroupCredit,
} from './rl/credit.js'
export { trajectoryDatums, type DatumOptions, type TrajectoryDatums, type TurnDatum } from './rl/datums.js'
export {
  penaliseKl,
  referenceLogprobs,
  targetLogprobs,
  type EpisodeDatums,
  type KlPenalty,
  type Penalised,
} from './rl/kl.js'
export { dataMetrics, groupMetrics, klFromSampler, optimiserMetrics } from './rl/measure.js'
export type { DatasetParts, RLConfig } from './rl/options.js'
export { PacedProducer, type ProducerOptions } from './rl/producer.js'
export {
  fromGroupRecord,
  groupRecordSchema,
  parseGroupRecord,
  toGroupRecord,
  GROUP_RECORD_FORMAT,
  type IdsToText,
  type GroupRecord,
} from './rl/record.js'
export { renderReport, type ReportContent } from './rl/report/report.js'
export { splitEvenly, trainSubsteps, type Learnt, type RLDatum, type SubstepOptions } from './rl/substeps.js'
export { RLTrainer, trainRL, type RLResult, type RLUpdate } from './rl/trainer.js'
export { runRLUpdate, type RLUpdateContext, type RLUpdateResult } from './rl/update.js'
export * from './actor-critic/index.js'
export { SupervisedTrainer, supervisedUpdate, trainSupervised } from './supervised/trainer.js'
export type { SupervisedResult, SupervisedUpdate, SupervisedUpdateOptions } from './supervised/trainer.js'
export type { ResolvedSupervisedSettings, SupervisedConfig, SupervisedSettings } from './supervised/config.js'
export {
  examplesOf,
  normaliseWeights,
  packByTokens,
  toSupervisedDatum,
  type ConversationRow,
  type SupervisedDatum,
  type SupervisedRow,
} from './supervised/examples.js'
export { evaluateNll, nllEvaluator, nllOf, weightedBytes, type Nll, type NllOptions } from './supervised/nll.js'
export * from './preference/index.js'
