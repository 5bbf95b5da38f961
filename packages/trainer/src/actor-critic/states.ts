import { answerTexts, shownPrompts } from '../magrpo/roles.js'
import type { JointNode } from '../magrpo/types.js'
import type { CriticSettings } from './config.js'
import type { CriticSeat } from './critics.js'

/** What one critic is asked about one node, for agents that have a common answer to it. */
export interface ValuedPlace {
  readonly critic: CriticSeat
  readonly node: JointNode
  /** Agents that these values are for. */
  readonly agents: readonly number[]
  /** What it reads, one value each: one sequence for `v`; for `q` one per completion, or per joint answer where it is shared. */
  readonly sequences: readonly Int32Array[]
  /** Sequences that were longer than the critic's context: their oldest ids are left out. */
  readonly truncated: number
  /** Which sequence has the value of a joint answer (index). */
  readonly sequenceOf: (answer: number) => number
}

/** What the critics are asked about a node. */
export function valuedPlaces(
  node: JointNode,
  critics: readonly CriticSeat[],
  settings: Pick<CriticSettings, 'criticType' | 'criticHistory'>,
  shared: boolean,
): ValuedPlace[] {
  const { criticType } = settings
  return critics.flatMap((critic) => {
    if (shared) return [jointPlace(node, critic, settings)]
    return critic.agents.map((agent) => localPlace(node, critic, agent, criticType))
  })
}

/** One agent's own view: its prompt, and for `q` its completion behind it. */
function localPlace(node: JointNode, critic: CriticSeat, agent: number, type: 'v' | 'q'): ValuedPlace {
  const prompt = node.prompts[agent]!
  const completions = node.completions[agent]!
  const { codec } = critic
  const read = (text: string, ids: () => Int32Array) => (codec ? Int32Array.from(codec.encode(text)) : ids())
  const whole =
    type === 'v'
      ? [read(prompt.text, () => prompt.tokens)]
      : completions.map(({ text, tokens }) =>
          read(prompt.text + text, () => Int32Array.from([...prompt.tokens, ...tokens])),
        )
  const sequenceOf = (answer: number) => (type === 'v' ? 0 : node.answers[answer]!.generations[agent]!)
  return { critic, node, agents: [agent], ...fit(whole, critic), sequenceOf }
}

/** All agents' view as one text. */
function jointPlace(
  node: JointNode,
  critic: CriticSeat,
  { criticType, criticHistory }: Pick<CriticSettings, 'criticType' | 'criticHistory'>,
): ValuedPlace {
  const state = jointState(node, criticHistory)
  const texts =
    criticType === 'v'
      ? [state]
      : node.answers.map((answer) => `${state}\n\n${blocks('answers', answerTexts(node, answer))}`)
  const whole = texts.map((text) => Int32Array.from(critic.codec!.encode(text)))
  const sequenceOf = (answer: number) => (criticType === 'v' ? 0 : answer)
  return { critic, node, agents: critic.agents, ...fit(whole, critic), sequenceOf }
}

/** What all agents are shown, one block each, and with `history` what they were shown and answered before, oldest first. */
export function jointState(node: JointNode, history: boolean): string {
  const before = history
    ? Array.from({ length: node.turn - 1 }, (_, turn) => [
        blocks(
          'was shown',
          node.promptHistory.map((texts) => texts[turn]!),
        ),
        blocks(
          'answered',
          node.responseHistory.map((texts) => texts[turn]!),
        ),
      ]).flat()
    : []
  return [...before, blocks('is shown', shownPrompts(node))].join('\n\n')
}

const blocks = (what: string, texts: readonly string[]): string =>
  texts.map((text, agent) => `[Agent ${agent + 1} ${what}]\n${text}`).join('\n\n')

/** The newest ids that the critic's context holds. */
function fit(sequences: readonly Int32Array[], { client }: CriticSeat) {
  const { contextLength } = client.info
  return {
    sequences: sequences.map((ids) => (ids.length > contextLength ? ids.slice(-contextLength) : ids)),
    truncated: sequences.filter(({ length }) => length > contextLength).length,
  }
}
