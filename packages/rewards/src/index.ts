/** What a result is worth. */
export * from './errors.js'
export { FailureBudget, type Attempt, type FailureBudgetOptions, type FailureCounts } from './failure-budget.js'
export * from './joint.js'
export * from './length-ratio.js'
export * from './processors.js'

export type { GroupRewards, JudgingOptions, MemberReward } from './group/group-rewards.js'
export { judgeEach, judgeGroup, type JudgeContext, type Judgement } from './group/judge-each.js'
export { pairwise, type Compare, type CompareContext, type PairwiseOptions } from './group/pairwise.js'
export { PAIRWISE_NORMALISATIONS, type PairwiseNormalisation } from './group/scores.js'
export { summariseRewards, type RewardSummary } from './group/summarise.js'
export { TOURNAMENT_PATTERNS, pairings, type TournamentOptions, type TournamentPattern } from './group/tournament.js'
export { weightedSum, type PartValue, type RewardPart, type WeightedReward } from './group/weighted-sum.js'

export { cached, type CacheOptions } from './preference/cached.js'
export { chatPreferenceModel, type ChatPreferenceOptions, type TokenScorer } from './preference/chat-model.js'
export { messageFrame, transcriptFrame, type ComparisonFrame } from './preference/frame.js'
export { PairwisePreferenceGroupBuilder, type PairwisePreferenceOptions } from './preference/group-builder.js'
export { judgeWinRate, type JudgeWinRateOptions } from './preference/judge-win-rate.js'
export { comparisonExample, labelChoice, type LabelChoice } from './preference/label-tokens.js'
export { lengthControlled, type LengthControl } from './preference/length-controlled.js'
export {
  PREFERENCE_LABELS,
  balanceOrders,
  certain,
  preferenceScore,
  swapComparison,
  swapLabeled,
  type Comparison,
  type LabeledComparison,
  type Preference,
  type PreferenceLabel,
  type PreferenceModel,
} from './preference/preference.js'
export { symmetrised } from './preference/symmetrised.js'

export {
  createSandbox,
  type Sandbox,
  type SandboxCall,
  type SandboxOptions,
  type SandboxResult,
} from './sandbox/sandbox.js'
export { verifyCode, type CodeCase, type CodeTask, type CodeVerdict, type VerifyCodeOptions } from './verify/code.js'
export { extract, type ExtractOptions, type Extraction, type Extractor, type Several } from './verify/extract.js'
export { verifyJson, type JsonVerdict, type VerifyJsonOptions } from './verify/json.js'
export { verifyMath, verifyNumber, type VerifyMathOptions, type VerifyNumberOptions } from './verify/number.js'
export { extractMatch, verifyRegex, type VerifyRegexOptions } from './verify/regex.js'
export { normaliseText, verifyText, type NormaliseOptions, type VerifyTextOptions } from './verify/text.js'
export type { Verdict, VerdictReason } from './verify/verdict.js'
export type { Tolerance } from './math/evaluate.js'
export { LinearRegex, type RegexMatch } from './regex/linear-regex.js'

export {
  RatingsDivergedError,
  bradleyTerry,
  type BradleyTerryOptions,
  type GameRecord,
} from './ratings/bradley-terry.js'
export { EloRatings, eloExpected, eloGain, type EloOptions, type EloState, type GameScore } from './ratings/elo.js'
export { winRate, type Results, type WinRate } from './ratings/win-rate.js'
