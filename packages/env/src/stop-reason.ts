/**
 * Why an episode ended. The set is closed.
 *
 * `completed`: the environment was done. `tool_stopped`: a tool asked to stop. `max_turns`, `max_tool_calls`: these budgets.
 * `max_tokens`: a sample was cut off by length, or the tokens of the trajectory are used up. `max_sampled_tokens`: the sampled
 * tokens of the episode are used up. `context_overflow`: the next prompt does not fit. `parse_error`: a reply could not be
 * read. `rollout_timeout`: the deadline of the whole rollout.
 */
export const STOP_REASONS = [
  'completed',
  'tool_stopped',
  'max_turns',
  'max_tokens',
  'max_sampled_tokens',
  'max_tool_calls',
  'context_overflow',
  'parse_error',
  'rollout_timeout',
] as const
export type StopReason = (typeof STOP_REASONS)[number]

const known: ReadonlySet<string> = new Set(STOP_REASONS)
export const isStopReason = (value: unknown): value is StopReason => typeof value === 'string' && known.has(value)
