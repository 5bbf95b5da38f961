import { InvalidInputError } from '@selfplay/engine'
import { z } from 'zod'
import { parseRolloutLine } from '../run/rollout-line.js'
import type { AnalysedNode } from './analyse.js'
import { answerTexts, shownPrompts } from './roles.js'
import type { JointAnswer, JointNode } from './types.js'

/** Version of the lines of `rollouts.jsonl`. */
export const ROLLOUT_FORMAT = 1

const numbers = z.array(z.number())
const maybeNumbers = z.array(z.number().nullable())

/** One line of `rollouts.jsonl`: a node with everything that credit and training were computed from. */
export const rolloutRecordSchema = z.object({
  formatVersion: z.number(),
  /** The update it was trained in, from 1. */
  step: z.number(),
  epoch: z.number(),
  envStep: z.number(),
  row: z.number(),
  turn: z.number(),
  path: numbers,
  /** [agent]. */
  prompts: z.array(z.object({ text: z.string(), chat: z.boolean(), tokens: numbers })),
  /** [agent][k]. */
  completions: z.array(
    z.array(
      z.object({
        text: z.string(),
        tokens: numbers,
        logprobs: numbers,
        /** Absent when nothing was filtered: 1 everywhere. */
        keptMass: numbers.optional(),
        stopReason: z.enum(['stop', 'length', 'scripted']),
        policyVersion: z.number(),
      }),
    ),
  ),
  /** What the roles saw and said, [role] and [role][k], where one policy speaks for all. */
  roles: z
    .object({ prompts: z.array(z.string()), texts: z.array(z.array(z.string())), failures: z.number() })
    .nullable(),
  answers: z.array(
    z.object({
      generations: numbers,
      rawRewards: maybeNumbers,
      rewards: maybeNumbers,
      ending: z.enum(['last_turn', 'terminated', 'left_out']).nullable(),
      reason: z.string().nullable(),
    }),
  ),
  /** [agent][answer]. */
  jointReturns: z.array(maybeNumbers),
  /** [agent][k], after the KL penalty. */
  returns: z.array(maybeNumbers),
  /** [agent][k]. */
  advantages: z.array(maybeNumbers),
  /** [agent][k], what a critic expected. Absent without one. */
  expected: z.array(maybeNumbers).optional(),
})

export type RolloutRecord = z.output<typeof rolloutRecordSchema>

/** Nine digits tell a float32 exactly; the double's own digits would double the file. */
const decimals = (values: Float32Array): number[] => Array.from(values, (value) => Number(value.toPrecision(9)))

/** A node as a line of `rollouts.jsonl`. */
export function toRecord(
  analysed: AnalysedNode,
  place: { readonly step: number; readonly epoch: number },
): RolloutRecord {
  const { node, envStep, jointReturns, groups } = analysed
  return {
    formatVersion: ROLLOUT_FORMAT,
    ...place,
    envStep,
    row: node.rowIndex,
    turn: node.turn,
    path: [...node.path],
    prompts: node.prompts.map(({ text, chat, tokens }) => ({ text, chat, tokens: [...tokens] })),
    completions: node.completions.map((list) =>
      list.map(({ text, tokens, logprobs, keptMass, stopReason, policyVersion }) => ({
        text,
        tokens: [...tokens],
        logprobs: decimals(logprobs),
        ...(keptMass.some((mass) => mass !== 1) && { keptMass: decimals(keptMass) }),
        stopReason,
        policyVersion,
      })),
    ),
    roles: node.roles && {
      ...node.roles,
      prompts: [...node.roles.prompts],
      texts: node.roles.texts.map((texts) => [...texts]),
    },
    answers: node.answers.map(({ generations, rawRewards, rewards, ending, reason }) => ({
      generations: [...generations],
      rawRewards,
      rewards,
      ending,
      reason,
    })),
    jointReturns,
    returns: groups.map(({ returns }) => [...returns]),
    advantages: groups.map(({ advantages }) => [...advantages]),
    ...(groups.some(({ expected }) => expected) && {
      expected: groups.map(({ expected, returns }) => [...(expected ?? returns.map(() => null))]),
    }),
  }
}

/**
 * Reads one line of `rollouts.jsonl`.
 * @throws InvalidInputError when it is none, or of a newer format.
 */
export const parseRecord = (line: string): RolloutRecord =>
  parseRolloutLine(line, { schema: rolloutRecordSchema, format: ROLLOUT_FORMAT, what: 'a line of rollouts.jsonl' })

/**
 * Builds the trees of one update again from its lines, as {@link creditTree} takes them. What a node was shown earlier is
 * taken from its ancestors.
 */
export function fromRecords(records: readonly RolloutRecord[]): JointNode[] {
  const roots: JointNode[] = []
  const byPlace = new Map<string, JointNode>()
  const key = (row: number, path: readonly number[]) => `${row}:${path.join('.')}`
  for (const record of [...records].sort((a, b) => a.turn - b.turn)) {
    const parent = byPlace.get(key(record.row, record.path.slice(0, -1)))
    const from = record.path.length > 0 ? parent?.answers[record.path.at(-1)!] : undefined
    if (record.path.length > 0 && (!parent || !from)) {
      throw new InvalidInputError(
        `row ${record.row}, branch ${record.path.join('.')}: its parent is not among the records`,
      )
    }
    const node = nodeOf(record, parent, from)
    byPlace.set(key(record.row, record.path), node)
    if (from) from.child = node
    else roots.push(node)
  }
  return roots
}

function nodeOf(record: RolloutRecord, parent: JointNode | undefined, from: JointAnswer | undefined): JointNode {
  const seen = record.roles?.prompts ?? record.prompts
  return {
    rowIndex: record.row,
    turn: record.turn,
    path: record.path,
    prompts: record.prompts.map(({ text, chat, tokens }) => ({ text, chat, tokens: Int32Array.from(tokens) })),
    promptHistory: seen.map((_, agent) =>
      parent ? [...parent.promptHistory[agent]!, shownPrompts(parent)[agent]!] : [],
    ),
    responseHistory: seen.map((_, agent) =>
      parent && from ? [...parent.responseHistory[agent]!, answerTexts(parent, from)[agent]!] : [],
    ),
    roles: record.roles,
    completions: record.completions.map((list) =>
      list.map((completion) => ({
        ...completion,
        tokens: Int32Array.from(completion.tokens),
        logprobs: Float32Array.from(completion.logprobs),
        keptMass: completion.keptMass
          ? Float32Array.from(completion.keptMass)
          : new Float32Array(completion.tokens.length).fill(1),
      })),
    ),
    answers: record.answers.map((answer) => ({ ...answer, child: null })),
  }
}
