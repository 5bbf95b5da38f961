/** Tasks, games and matches for language models. */
export { assistant, system, text, textOf, thinking, toolCall, toolResult, user } from '@selfplay/renderers'
export type { Message } from '@selfplay/renderers'
export * from './errors.js'
export { bounded, type BoundOptions, type Deadline } from './deadline.js'
export { neverAborted, onAbort } from './on-abort.js'
export { Limiter } from './limiter.js'
export { Random, deriveSeed, type RandomState } from './random.js'
export { STOP_REASONS, isStopReason, type StopReason } from './stop-reason.js'
export {
  frameworkReducers,
  mergeReducers,
  reduceMetrics,
  type Logs,
  type MetricReducers,
  type Metrics,
  type Reducer,
} from './metrics.js'
export {
  returnsToGo,
  sampledTokens,
  totalReward,
  type Action,
  type CallOptions,
  type Env,
  type FinishResult,
  type InitialOverflow,
  type Observation,
  type StepResult,
  type StopCondition,
  type Trajectory,
  type Transition,
} from './types.js'
export {
  clientSampler,
  type Sampler,
  type SamplerRequest,
  type SamplerOptions,
  type SamplingClientLike,
} from './sampler.js'
export type { MessageEnv, MessageStepResult, PlayerView, StepContext } from './message-env.js'
export { EnvFromMessageEnv, type EnvFromMessageEnvOptions } from './env-from-message-env.js'
export type { ParseErrorPolicy } from './parse-error-policy.js'
export {
  groupOf,
  repeat,
  rewardEach,
  type EnvGroupBuilder,
  type ExcludedMember,
  type GroupMember,
  type GroupOptions,
  type GroupReward,
  type TrajectoryGroup,
} from './group.js'
export { datasetOf, type DatasetOptions, type RLDataset } from './dataset.js'
export { interleave, type InterleaveOptions, type WeightedSource } from './interleave.js'
export {
  ProblemEnv,
  problemGroup,
  type Problem,
  type ProblemEnvOptions,
  type ProblemGroupOptions,
} from './problem-env.js'
export { tool, type Tool, type ToolContext, type ToolDefinition, type ToolOutput } from './tools/tool.js'
export { callTools, type CallToolsOptions, type CalledTools, type ToolErrorKind } from './tools/call-tools.js'
export { ToolEnv, type Grade, type ToolEnvOptions } from './tools/tool-env.js'
export type { MessagePolicy, MessageTurn, PolicyReply, SampledReply } from './policies/policy.js'
export { randomMoves, scripted } from './policies/scripted.js'
export { human, printable, type Terminal } from './policies/human.js'
export { modelPolicy, type ModelPolicyOptions } from './policies/model.js'
export { playEnv, type Episode, type EpisodeTurn, type PlayEnvOptions } from './play-env.js'
export { rolloutLimitsSchema, type RolloutLimits } from './rollout/limits.js'
export { RolloutError, type Boundary, type RolloutFailure } from './rollout/failure.js'
export { runRollout, type RolloutOptions } from './rollout/run-rollout.js'
export { strategySchema, type Strategy } from './rollout/strategy.js'
export { runGroup, type GroupRunOptions } from './rollout/run-group.js'
export { runGroups, type GroupsRunOptions } from './rollout/run-groups.js'
export { FailureGuard, type GroupCounts } from './rollout/failure-guard.js'
export { summarizeByTag, summarizeGroups } from './rollout/summarize.js'
export { bracketedMove, playerViewOf, type Game } from './match/game.js'
export type { Fault, FaultKind, MatchVerdict } from './match/verdict.js'
export { playMatch, type MatchOptions, type MatchResult, type SeatResult } from './match/play-match.js'
export { playMatches, seatGroups, type MatchesOptions } from './match/matches.js'
export { GameEnv, type GameEnvOptions } from './match/game-env.js'
export {
  openCells,
  optimalTicTacToe,
  place,
  seatToMove,
  ticTacToe,
  ticTacToeSolver,
  winnerOf,
  type Board,
} from './games/tic-tac-toe.js'
export {
  kuhnBestResponse,
  kuhnDeals,
  kuhnNashConv,
  kuhnPayoff,
  kuhnPoker,
  kuhnValue,
  type KuhnMove,
  type KuhnState,
  type KuhnStrategy,
  type KuhnView,
} from './games/kuhn-poker.js'
export { rockPaperScissors, type Rounds, type Throw } from './games/rock-paper-scissors.js'
