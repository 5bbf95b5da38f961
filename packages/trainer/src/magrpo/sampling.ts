import { InvalidInputError, NonFiniteError, type SampledSequence, type SamplingClient } from '@selfplay/engine'
import { textOf } from '@selfplay/renderers'
import { runLimited, settleAll, withDeadline } from '../deadline.js'
import { deriveSeed } from '@selfplay/env'
import type { Samplers, Seat } from './agents.js'
import { describeValue } from './prompts.js'
import type { Completion, JointNode } from './types.js'

/** How completions are drawn at one level of the trees. */
export interface SamplingOptions<Row> {
  readonly seats: readonly Seat[]
  readonly samplers: Samplers
  /** Completions of each agent at each of these nodes. */
  readonly numGenerations: number
  /** Null: each agent's own. */
  readonly temperature: number | null
  /** With a node's place in the tree it decides every draw. */
  readonly seed: number
  readonly maxConcurrentPolicies: number
  readonly scriptedTimeoutSeconds: number
  readonly rowOf: (node: JointNode) => Row
  readonly signal: AbortSignal
}

/**
 * Draws the completions of all nodes of one level, [node][agent][k].
 *
 * All requests to one policy run at the same time (sibling nodes, and agents that share weights), so that a sampler can
 * batch them; policies run `maxConcurrentPolicies` at a time.
 */
export async function sampleNodes<Row>(
  nodes: readonly JointNode[],
  options: SamplingOptions<Row>,
): Promise<Completion[][][]> {
  const { seats } = options
  const drawn: Completion[][][] = nodes.map(() => seats.map(() => []))
  const policies = [...new Set(seats.map((seat) => seat.policy))]
  const jobs = policies.map((policy) => async () => {
    const seatsOfPolicy = seats.filter((seat) => seat.policy === policy)
    const sampler = policy ? await options.samplers.of(policy) : null
    await settleAll(
      nodes.flatMap((node, n) =>
        seatsOfPolicy.map(async (seat) => {
          drawn[n]![seat.index] = sampler
            ? await drawFromPolicy(node, seat, sampler, options)
            : await replyByScript(node, seat, options)
        }),
      ),
    )
  })
  await runLimited(jobs, options.maxConcurrentPolicies)
  return drawn
}

async function drawFromPolicy<Row>(
  node: JointNode,
  seat: Seat,
  sampler: SamplingClient,
  options: SamplingOptions<Row>,
): Promise<Completion[]> {
  const { maxNewTokens, topK, topP, temperature } = seat.settings
  const request = {
    prompt: node.prompts[seat.index]!.tokens,
    numSamples: options.numGenerations,
    maxTokens: maxNewTokens,
    temperature: options.temperature ?? temperature,
    ...(topK !== null && { topK }),
    topP,
    stop: node.prompts[seat.index]!.chat ? seat.chatStop : seat.stop,
    seed: deriveSeed(options.seed, node.rowIndex, node.turn, node.path.join('.'), seat.index),
  }
  const sequences = await sampler.sample(request, { signal: options.signal }).catch((error: unknown) => {
    throw error instanceof NonFiniteError ? brokenPolicy(error.message, seat, node, error.details) : error
  })
  return sequences.map((sequence, k) => toCompletion(sequence, seat, node, k))
}

/** That an agent cannot answer any more: weights that are not finite stay so. */
function brokenPolicy(
  what: string,
  { index, kind, settings }: Seat,
  { rowIndex, turn }: JointNode,
  details: Readonly<Record<string, unknown>>,
): NonFiniteError {
  const advice =
    kind === 'trained'
      ? `its weights are damaged, as by steps that are too large: begin anew with a lower learning rate than ${settings.learningRate}`
      : 'its weights are damaged: load another model'
  return new NonFiniteError(`agent ${index}, row ${rowIndex}, turn ${turn}: ${what}; ${advice}`, {
    ...details,
    agent: index,
    row: rowIndex,
    turn,
    policy: 'broken',
  })
}

/** A sampled sequence with its text: without the id or the string that ended it. */
export function toCompletion(sequence: SampledSequence, seat: Seat, node: JointNode, k: number): Completion {
  const { tokens, logprobs, keptMass, stopReason, policyVersion } = sequence
  const bad = logprobs.findIndex((logprob) => !Number.isFinite(logprob))
  if (bad >= 0) {
    const what = `completion ${k}: token ${bad} has log-prob ${logprobs[bad]}`
    throw brokenPolicy(what, seat, node, { completion: k, position: bad })
  }
  if (node.prompts[seat.index]!.chat) {
    const text = textOf(seat.renderer!.parse(tokens).message)
    return { text, tokens, logprobs, keptMass, stopReason, policyVersion }
  }
  const ended = stopReason === 'stop'
  const last = tokens.at(-1)
  const closedById = ended && last !== undefined && seat.stop.includes(last)
  let text = seat.codec!.decode(closedById ? tokens.slice(0, -1) : tokens)
  if (ended && !closedById) text = cutAtStop(text, seat.stop)
  return { text, tokens, logprobs, keptMass, stopReason, policyVersion }
}

/** The text up to the first stop string in it. */
function cutAtStop(text: string, stop: readonly (number | string)[]): string {
  const places = stop.flatMap((s) => (typeof s === 'string' ? [text.indexOf(s)] : [])).filter((place) => place >= 0)
  return places.length === 0 ? text : text.slice(0, Math.min(...places))
}

async function replyByScript<Row>(node: JointNode, seat: Seat, options: SamplingOptions<Row>): Promise<Completion[]> {
  const replies = Array.from({ length: options.numGenerations }, async (_, generation) => {
    const args = {
      row: options.rowOf(node),
      prompt: node.prompts[seat.index]!.text,
      turn: node.turn,
      generation,
      agent: seat.index,
    }
    const text: unknown = await withDeadline((signal) => seat.reply!(args, { signal }), {
      seconds: options.scriptedTimeoutSeconds,
      signal: options.signal,
      what: `the reply of scripted agent ${seat.index}`,
    })
    if (typeof text !== 'string') {
      throw new InvalidInputError(`scripted agent ${seat.index} must reply with text, got ${describeValue(text)}`, {
        agent: seat.index,
      })
    }
    return scriptedCompletion(text)
  })
  return settleAll(replies)
}

const scriptedCompletion = (text: string): Completion => ({
  text,
  tokens: new Int32Array(0),
  logprobs: new Float32Array(0),
  keptMass: new Float32Array(0),
  stopReason: 'scripted',
  policyVersion: 0,
})
