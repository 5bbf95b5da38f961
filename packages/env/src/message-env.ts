import type { Message, Termination, ToolSpec } from '@selfplay/renderers'
import type { Logs, MetricReducers, Metrics } from './metrics.js'
import type { StopReason } from './stop-reason.js'
import type { CallOptions, FinishResult, StopCondition } from './types.js'

type Awaitable<T> = T | Promise<T>

export interface StepContext extends CallOptions {
  /** How the reply ended: with the format's own stop, or with the end of the sequence. */
  readonly termination: Termination
  /** Turns before this one. */
  readonly turn: number
  /** The whole conversation, the reply included. The framework keeps it. */
  readonly transcript: readonly Message[]
}

export interface MessageStepResult {
  readonly reward: number
  readonly episodeDone: boolean
  /**
   * Only what is new: what the environment says to the reply. The framework owns the transcript and has appended the reply to
   * it already. At least one message while the episode goes on; none from the assistant.
   */
  readonly nextMessages: readonly Message[]
  /**
   * Puts another conversation in the place of the whole transcript (to drop or summarise old turns); `nextMessages` then
   * follow it. What was sampled before is cut off from what comes, and counted as a break.
   */
  readonly replaceTranscript?: readonly Message[]
  /** Default `completed` when the episode is done. */
  readonly stopReason?: StopReason
  /** What ends the next reply. Default: the chat format's own stops. */
  readonly nextStop?: StopCondition
  readonly metrics?: Metrics
  readonly logs?: Logs
}

/** What a player knows beside the messages. It holds nothing that the player may not see. */
export interface PlayerView {
  readonly seat?: number
  /** The moves that are allowed now, as text. */
  readonly legalMoves?: readonly string[]
  /** What the player sees, as data. */
  readonly view?: unknown
}

/** A task at the level of messages. It serves one episode. Needs no model: see `playEnv`. */
export interface MessageEnv {
  /** What the conversation begins with. At least one message; the last one is not the assistant's. */
  initialObservation(options: CallOptions): Awaitable<readonly Message[]>
  step(reply: Message, context: StepContext): Awaitable<MessageStepResult>
  /**
   * What to do with a reply that was cut off by length, where the adapter has `terminateOnLength: false`. `undefined`, or no
   * such method: the episode ends.
   */
  observeTruncated?(reply: Message, context: StepContext): Awaitable<MessageStepResult | undefined>
  /** Grades what was reached when a budget of the runner ends the episode. */
  finish?(reason: StopReason, context: Omit<StepContext, 'termination'>): Awaitable<FinishResult | undefined>
  /** For scripted players and people: what the policy may do now, where that can be listed. */
  playerView?(): PlayerView
  /** Tools that are declared to the policy. Default none. */
  readonly tools?: readonly ToolSpec[]
  readonly metricReducers?: MetricReducers
  /** Names the example, the same in every run. */
  readonly exampleId?: string | undefined
  /** Lets go of what the environment holds. Called once, also after a failure. */
  close?(): void | Promise<void>
}
