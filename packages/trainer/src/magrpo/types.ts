import type { JointRewardFunction, RewardProcessor, RewardValue } from '@selfplay/rewards'
import type { Message, Renderer, Tokenizer } from '@selfplay/renderers'
import type { SampledSequence } from '@selfplay/engine'
import type { CentralizedAdapter, RoleView } from './roles.js'

/** What turns text into ids and back: the part of a tokenizer that a trainer needs. */
export type TextCodec = Pick<Tokenizer, 'encode' | 'decode'>

/** Text, or the messages of a chat that ends where the agent is to speak. */
export type Prompt = string | readonly Message[]

/** A row of a data set: a prompt and whatever else rewards and formatters need. */
export interface PromptRow {
  readonly prompt: Prompt
}

/** What lays out the messages of a chat as ids and reads answers: the part of a renderer that a trainer needs. */
export type PromptRenderer = Pick<Renderer, 'generationPrompt' | 'parse' | 'stop'>

/** A completion as an agent gave it. Scripted ones have text only. */
export interface Completion {
  /** Without the end token or the stop string that closed it; of a chat answer, what its renderer reads as text. */
  readonly text: string
  /** Sampled ids, the stop token included; empty for a scripted agent. */
  readonly tokens: Int32Array
  /** Log-prob of each token at the sampling temperature, before any filter. */
  readonly logprobs: Float32Array
  /** Probability that top-k/top-p kept at each draw. */
  readonly keptMass: Float32Array
  readonly stopReason: SampledSequence['stopReason'] | 'scripted'
  /** Optimiser steps behind the weights that sampled it. */
  readonly policyVersion: number
}

/** What an agent is shown at a node. */
export interface ShownPrompt {
  readonly text: string
  /** Laid out by the renderer, which also reads the answer. */
  readonly chat: boolean
  /** Empty for a scripted agent. */
  readonly tokens: Int32Array
}

/** Why a joint answer has no next turn. */
export type Ending = 'last_turn' | 'terminated' | 'left_out'

/** One joint answer of a node. */
export interface JointAnswer {
  /** Which completion of each agent it consists of, [agent]. */
  readonly generations: readonly number[]
  /** As the reward function gave it, [agent]; null: left out. */
  rawRewards: RewardValue[]
  /** After the processor, [agent]. */
  rewards: RewardValue[]
  /** Null while it goes on into `child`. */
  ending: Ending | null
  /** Why it ended early or was left out, in words. */
  reason: string | null
  child: JointNode | null
}

/** A place in a tree of joint answers. */
export interface JointNode {
  /** Index of the row in the data set. */
  readonly rowIndex: number
  /** From 1. */
  readonly turn: number
  /** Joint answers chosen from the root to here; empty at the root. */
  readonly path: readonly number[]
  /** [agent]. */
  readonly prompts: readonly ShownPrompt[]
  /** Earlier turns of this branch, [agent][turn]. */
  readonly promptHistory: readonly (readonly string[])[]
  readonly responseHistory: readonly (readonly string[])[]
  /** [agent][k]. */
  completions: readonly (readonly Completion[])[]
  /** The roles behind a single policy; null where each agent speaks for itself. */
  roles: RoleView | null
  answers: JointAnswer[]
}

export interface TransitionArgs<Row> {
  /** The row's original prompt, at every turn. */
  readonly prompt: Row extends PromptRow ? Row['prompt'] : Prompt
  /** The joint answer: one text per agent. */
  readonly agentCompletions: readonly string[]
  readonly numAgents: number
  /** The turn just finished, from 1. */
  readonly turn: number
  readonly row: Row
  /** [agent][turn], the text that was shown, up to and including this turn. */
  readonly promptHistory: readonly (readonly string[])[]
  /** [agent][turn]. */
  readonly responseHistory: readonly (readonly string[])[]
}

/** Makes the next turn's prompts, one per agent, of a joint answer. */
export type ExternalTransition<Row> = (
  args: TransitionArgs<Row>,
  options: { readonly signal: AbortSignal },
) => readonly Prompt[] | Promise<readonly Prompt[]>

export interface FormatterArgs<Row> {
  readonly row: Row
  /** The row's prompt at turn 1, what the transition wrote at later ones. */
  readonly prompt: Prompt
  readonly agent: number
  readonly numAgents: number
  /** From 1. */
  readonly turn: number
}

/** What an agent is shown, made of the row and the prompt. */
export type Formatter<Row> = (args: FormatterArgs<Row>) => Prompt

export interface ReplyArgs<Row> {
  readonly row: Row
  readonly prompt: string
  readonly turn: number
  /** Which completion of the node, from 0. */
  readonly generation: number
  readonly agent: number
}

/** The task's own functions. */
export interface Task<Row> {
  readonly rewardFunc: JointRewardFunction<Row>
  readonly rewardProcessor?: RewardProcessor
  readonly externalTransition?: ExternalTransition<Row>
  /** One policy writes the answers of several roles. Default: each agent speaks for itself. */
  readonly centralized?: CentralizedAdapter<Row>
  /** One for all agents, or one per agent (or role). */
  readonly formatters?: Formatter<Row> | readonly Formatter<Row>[]
}
