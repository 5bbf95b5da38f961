import { z } from 'zod'

/** Most characters of a failure's detail that go into a message to the policy. */
const MAX_DETAIL = 2000

const template = z.string().refine((text) => text.includes('{details}'), 'expected a text that contains {details}')

export const parseErrorPolicySchema = z.strictObject({
  maxConsecutive: z.int().min(0).default(0),
  retryMessage: template.default('Your last message could not be read: {details}. Please answer again.'),
  penaltyPerError: z.number().min(0).default(0),
  terminalReward: z.number().optional(),
  maskErrorTurns: z.boolean().default(false),
})

/** What becomes of replies that cannot be read. */
export interface ParseErrorPolicy {
  /** Failures in a row that may be tried again; the next one ends the episode. A readable reply resets the count. Default 0. */
  readonly maxConsecutive?: number
  /** What is said to the policy, as a user message; `{details}` becomes the failure. Default: a short request. */
  readonly retryMessage?: string
  /** Taken off the reward of every turn that is tried again. Default 0. */
  readonly penaltyPerError?: number
  /** Reward of the turn that ends the episode. Default: the adapter's `failedParseReward`. */
  readonly terminalReward?: number
  /** Keep the tokens of unreadable replies in the sequence without training on them. Default false. */
  readonly maskErrorTurns?: boolean
}
export type ParsedErrorPolicy = z.output<typeof parseErrorPolicySchema>

export const defaultRetryMessage: string = parseErrorPolicySchema.parse({}).retryMessage

export const retryText = (message: string, details: string): string =>
  message.replace('{details}', () => (details.length > MAX_DETAIL ? `${details.slice(0, MAX_DETAIL)}...` : details))
