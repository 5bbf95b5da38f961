import { STOP_REASONS, type Action, type TrajectoryGroup } from '@selfplay/env'
import { z } from 'zod'
import { parseRolloutLine } from '../run/rollout-line.js'
import type { CreditedGroup } from './assemble.js'

/** Version of the lines of an RL run's `rollouts.jsonl`. */
export const GROUP_RECORD_FORMAT = 1

const numbers = z.array(z.number())
const metrics = z.record(z.string(), z.number())
const logs = z.record(z.string(), z.union([z.string(), z.number()]))

const turnSchema = z.object({
  /** How many ids of the turn before (prompt and sample) the prompt begins with: all of them, or 0. */
  kept: z.number(),
  /** The ids of the prompt after those. */
  prompt: numbers,
  promptText: z.string().nullable(),
  tokens: numbers,
  text: z.string().nullable(),
  logprobs: numbers.nullable(),
  /** Absent when nothing was filtered. */
  keptMass: numbers.optional(),
  stopReason: z.enum(['stop', 'length']),
  policyVersion: z.number().nullable(),
  masked: z.boolean(),
  reward: z.number(),
  episodeDone: z.boolean(),
  metrics,
  logs,
})

const trajectory = {
  slot: z.number(),
  stopReason: z.enum(STOP_REASONS).nullable(),
  turns: z.array(turnSchema),
  finalObservation: numbers,
}

/** One line of an RL run's `rollouts.jsonl`: a group with everything that credit and training were computed from. */
export const groupRecordSchema = z.object({
  formatVersion: z.number(),
  /** The update it was trained in, from 1. */
  step: z.number(),
  /** Place in the batch. */
  group: z.number(),
  tags: z.array(z.string()),
  status: z.enum(['complete', 'partial', 'failed', 'filtered']),
  use: z.enum(['trained', 'constant', 'stale', 'failed', 'filtered']),
  reason: z.string().nullable(),
  size: z.number(),
  metricReducers: z.record(z.string(), z.enum(['mean', 'mean_present', 'sum', 'rate'])),
  members: z.array(
    z.object({
      ...trajectory,
      attempt: z.number(),
      reward: z.number(),
      groupReward: z.number(),
      metrics,
      /** [turn]; null when the group was not credited. */
      returns: numbers.nullable(),
      advantages: numbers.nullable(),
    }),
  ),
  excluded: z.array(z.object({ ...trajectory, reason: z.string() })),
  failures: z.array(
    z.object({
      slot: z.number().nullable(),
      attempt: z.number(),
      boundary: z.enum(['builder', 'env', 'renderer', 'sampler', 'reward', 'cleanup']),
      code: z.string(),
      message: z.string(),
    }),
  ),
})

export type GroupRecord = z.output<typeof groupRecordSchema>
type TurnRecord = z.output<typeof turnSchema>
type Trajectory = TrajectoryGroup['members'][number]['trajectory']

/** Turns ids into text for people to read. */
export type IdsToText = (ids: Int32Array) => string

/** Nine digits tell a float32 exactly. */
const decimals = (values: Float32Array): number[] => Array.from(values, (value) => Number(value.toPrecision(9)))

/** A group of an update as a line of `rollouts.jsonl`. Without `decode` it holds ids only. */
export function toGroupRecord(
  { index, group, use, credit }: CreditedGroup,
  step: number,
  decode?: IdsToText,
): GroupRecord {
  return {
    formatVersion: GROUP_RECORD_FORMAT,
    step,
    group: index,
    tags: [...group.tags],
    status: group.status,
    use,
    reason: group.reason ?? null,
    size: group.size,
    metricReducers: { ...group.metricReducers },
    members: group.members.map((member, k) => ({
      ...trajectoryRecord(member.slot, member.trajectory, decode),
      attempt: member.attempt,
      reward: member.reward,
      groupReward: member.groupReward,
      metrics: { ...member.metrics },
      returns: credit?.returns[k] ?? null,
      advantages: credit?.advantages[k] ?? null,
    })),
    excluded: group.excluded.map(({ slot, trajectory: episode, reason }) => ({
      ...trajectoryRecord(slot, episode, decode),
      reason,
    })),
    failures: group.failures.map((failure) => ({ ...failure })),
  }
}

function trajectoryRecord(slot: number, { transitions, finalObservation, stopReason }: Trajectory, decode?: IdsToText) {
  let before: number[] = []
  const turns = transitions.map(({ observation, action, masked, reward, episodeDone, ...rest }): TurnRecord => {
    const extends_ = before.length <= observation.length && before.every((id, i) => id === observation[i])
    const kept = extends_ ? before.length : 0
    const prompt = observation.slice(kept)
    before = [...observation, ...action.tokens]
    return {
      kept,
      prompt: [...prompt],
      promptText: decode?.(prompt) ?? null,
      tokens: [...action.tokens],
      text: decode?.(action.tokens) ?? null,
      logprobs: action.logprobs ? decimals(action.logprobs) : null,
      ...(action.keptMass?.some((mass) => mass !== 1) && { keptMass: decimals(action.keptMass) }),
      stopReason: action.stopReason,
      policyVersion: action.policyVersion ?? null,
      masked: masked ?? false,
      reward,
      episodeDone,
      metrics: { ...rest.metrics },
      logs: { ...rest.logs },
    }
  })
  return { slot, stopReason, turns, finalObservation: [...finalObservation] }
}

/**
 * Reads one line of `rollouts.jsonl`.
 * @throws InvalidInputError when it is none, or of a newer format.
 */
export const parseGroupRecord = (line: string): GroupRecord =>
  parseRolloutLine(line, {
    schema: groupRecordSchema,
    format: GROUP_RECORD_FORMAT,
    what: "a line of an RL run's rollouts.jsonl",
  })

/** The group that a line was written from, as `creditBatch` takes it. Parsed messages are not in the file. */
export function fromGroupRecord(record: GroupRecord): TrajectoryGroup {
  const { status, size, tags, failures, metricReducers, reason } = record
  return {
    status,
    size,
    tags,
    failures,
    metricReducers,
    ...(reason !== null && { reason }),
    members: record.members.map((member) => ({
      slot: member.slot,
      attempt: member.attempt,
      trajectory: trajectoryOf(member),
      groupReward: member.groupReward,
      reward: member.reward,
      metrics: member.metrics,
    })),
    excluded: record.excluded.map((member) => ({
      slot: member.slot,
      trajectory: trajectoryOf(member),
      reason: member.reason,
    })),
  }
}

function trajectoryOf(
  record: Pick<GroupRecord['members'][number], 'turns' | 'stopReason' | 'finalObservation'>,
): Trajectory {
  let before: number[] = []
  const transitions = record.turns.map((turn) => {
    const observation = Int32Array.from([...before.slice(0, turn.kept), ...turn.prompt])
    before = [...observation, ...turn.tokens]
    const { reward, episodeDone, metrics: measured, logs: noted, masked } = turn
    return {
      observation,
      action: actionOf(turn),
      reward,
      episodeDone,
      metrics: measured,
      logs: noted,
      ...(masked && { masked }),
    }
  })
  return { transitions, finalObservation: Int32Array.from(record.finalObservation), stopReason: record.stopReason }
}

function actionOf({ tokens, logprobs, keptMass, stopReason, policyVersion }: TurnRecord): Action {
  return {
    tokens: Int32Array.from(tokens),
    stopReason,
    ...(logprobs && { logprobs: Float32Array.from(logprobs) }),
    ...(keptMass && { keptMass: Float32Array.from(keptMass) }),
    ...(policyVersion !== null && { policyVersion }),
  }
}
