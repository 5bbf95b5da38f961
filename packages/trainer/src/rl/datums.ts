import { InvalidInputError, type Datum } from '@selfplay/engine'
import type { Trajectory, Transition } from '@selfplay/env'

/** A training sequence that covers some turns of one episode. */
export interface TurnDatum {
  readonly datum: Datum
  /** First and last turn that were sampled within it. */
  readonly turns: readonly [first: number, last: number]
  /** The oldest policy that sampled in it; null where the sampler does not tell. */
  readonly policyVersion: number | null
}

export interface TrajectoryDatums {
  readonly datums: TurnDatum[]
  /** Prompts that did not start with the prompt and the sample before them: each began a new sequence. */
  readonly breaks: number
  /** Sequences before those without a trained token were left out. */
  readonly sequences: number
}

export interface DatumOptions {
  /** The temperature it was sampled at. Default 1. */
  readonly temperature?: number
  /** Do not train on samples that were cut off by length. Default false. */
  readonly maskTruncated?: boolean
}

/** A sequence while it grows. All lists have the length of `tokens`; entry i is about token i. */
interface Growing {
  tokens: number[]
  logprobs: number[]
  advantages: number[]
  weights: number[]
  turns: [number, number]
  policyVersion: number | null
}

/**
 * The training sequences of one episode: one, as long as each prompt starts with the prompt and the sample before it;
 * otherwise a new one begins there, so that every sampled token stands behind exactly what its sampler saw.
 *
 * Weight is 1 on sampled tokens, the stop token included, and 0 on prompts and masked turns. A sequence of L tokens makes a
 * datum of T = L - 1 positions. Turns without a sampled token are left out, and so are sequences without a trained one.
 *
 * @param advantages [turn]
 * @throws InvalidInputError naming the turn: as many log-probs as tokens are needed, and a prompt before them
 */
export function trajectoryDatums(
  trajectory: Trajectory,
  advantages: readonly number[],
  options: DatumOptions = {},
): TrajectoryDatums {
  const { transitions } = trajectory
  if (advantages.length !== transitions.length) {
    throw new InvalidInputError(
      `expected an advantage for each of the ${transitions.length} turns, got ${advantages.length}`,
      { expected: transitions.length, got: advantages.length },
    )
  }
  const sequences: Growing[] = []
  transitions.forEach((transition, turn) => {
    if (transition.action.tokens.length === 0) return
    const logprobs = checkedLogprobs(transition, turn)
    const open = sequences.at(-1)
    const extended = open && isPrefix(open.tokens, transition.observation) ? open : undefined
    const sequence: Growing = extended ?? {
      tokens: [],
      logprobs: [],
      advantages: [],
      weights: [],
      turns: [turn, turn],
      policyVersion: transition.action.policyVersion ?? null,
    }
    if (!extended) sequences.push(sequence)
    const trained = !transition.masked && !(options.maskTruncated && transition.action.stopReason === 'length')
    append(sequence, transition, turn, logprobs, trained ? advantages[turn]! : null)
  })
  return {
    datums: sequences
      .filter(({ weights }) => weights.includes(1))
      .map((sequence) => toTurnDatum(sequence, options.temperature ?? 1)),
    breaks: Math.max(0, sequences.length - 1),
    sequences: sequences.length,
  }
}

function checkedLogprobs({ observation, action }: Transition, turn: number): Float32Array {
  const { tokens, logprobs } = action
  if (!logprobs) {
    throw new InvalidInputError(
      `turn ${turn}: its sampler told no log-probs, so it cannot be trained on: only samples of the policy can`,
      { turn },
    )
  }
  if (logprobs.length !== tokens.length) {
    throw new InvalidInputError(
      `turn ${turn}: ${tokens.length} sampled tokens came with ${logprobs.length} log-probs, expected one each`,
      { turn, expected: tokens.length, got: logprobs.length },
    )
  }
  if (observation.length === 0) {
    throw new InvalidInputError(`turn ${turn}: sampled after an empty prompt, expected at least one token`, { turn })
  }
  return logprobs
}

/** Whether `long` begins with `short`. */
function isPrefix(short: readonly number[], long: Int32Array): boolean {
  return short.length <= long.length && short.every((id, i) => id === long[i])
}

/** @param advantage null: the sample stays in the sequence and is not trained on */
function append(
  sequence: Growing,
  { observation, action }: Transition,
  turn: number,
  logprobs: Float32Array,
  advantage: number | null,
): void {
  for (let i = sequence.tokens.length; i < observation.length; i++) push(sequence, observation[i]!, 0, 0, 0)
  action.tokens.forEach((id, i) => {
    if (advantage === null) push(sequence, id, 0, 0, 0)
    else push(sequence, id, logprobs[i]!, advantage, 1)
  })
  sequence.turns[1] = turn
  const { policyVersion } = action
  if (policyVersion === undefined) return
  sequence.policyVersion = Math.min(sequence.policyVersion ?? policyVersion, policyVersion)
}

function push(sequence: Growing, token: number, logprob: number, advantage: number, weight: number): void {
  sequence.tokens.push(token)
  sequence.logprobs.push(logprob)
  sequence.advantages.push(advantage)
  sequence.weights.push(weight)
}

/** Position t reads tokens up to t and predicts token t + 1. */
function toTurnDatum(sequence: Growing, temperature: number): TurnDatum {
  const { tokens, logprobs, advantages, weights, turns, policyVersion } = sequence
  return {
    datum: {
      tokens: Int32Array.from(tokens.slice(0, -1)),
      targets: Int32Array.from(tokens.slice(1)),
      weights: Float32Array.from(weights.slice(1)),
      advantages: Float32Array.from(advantages.slice(1)),
      samplerLogprobs: Float32Array.from(logprobs.slice(1)),
      temperature,
    },
    turns: [...turns],
    policyVersion,
  }
}
