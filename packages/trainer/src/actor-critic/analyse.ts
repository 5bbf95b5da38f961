import { settleAll } from '../deadline.js'
import type { AgentGroup, AnalysedNode, AnalyseOptions, Analysis } from '../magrpo/analyse.js'
import { creditTree, type CreditedNode } from '../magrpo/credit.js'
import { toSamples } from '../magrpo/datums.js'
import { completionKls } from '../magrpo/reference-kl.js'
import type { JointNode } from '../magrpo/types.js'
import type { CriticSettings } from './config.js'
import { answerTargets, completionCredit, normaliseAdvantages, placeValue, type NodeValues } from './credit.js'
import type { CriticSeat } from './critics.js'
import { valuedPlaces, type ValuedPlace } from './states.js'

/** What one critic is to learn from an update, sequence by sequence. */
export interface ValueLesson {
  readonly critic: CriticSeat
  readonly sequences: readonly Int32Array[]
  readonly targets: Float32Array
  /** From before the update. */
  readonly oldValues: Float32Array
  /** Where each comes from. */
  readonly places: readonly { readonly rowIndex: number; readonly turn: number; readonly agents: readonly number[] }[]
  /** Sequences that did not fit the critic's context whole. */
  readonly truncated: number
}

export interface CriticAnalysis extends Analysis {
  readonly lessons: readonly ValueLesson[]
}

export interface CriticOptions extends AnalyseOptions {
  readonly critics: readonly CriticSeat[]
  readonly settings: CriticSettings
  /** One critic reads all agents. */
  readonly shared: boolean
}

/** A place with its values. */
interface Valued extends ValuedPlace {
  readonly values: Float32Array
}

/** Values, targets and advantages of grown trees, and what each critic is to learn. Critics are asked once per update. */
export async function analyseWithCritics(roots: readonly JointNode[], options: CriticOptions): Promise<CriticAnalysis> {
  const { config, settings, critics, shared } = options
  const credit = config.earlyTermination?.credit ?? 'hold'
  const target = { numTurns: config.numTurns, discount: config.discount, credit }
  const credited: CreditedNode[] = []
  let { envStep } = options
  for (const root of roots) {
    const nodes = creditTree(root, target, envStep)
    envStep = Math.max(envStep, ...nodes.map((node) => node.envStep))
    credited.push(...nodes)
  }
  const places = credited.flatMap(({ node }) => valuedPlaces(node, critics, settings, shared))
  const [valued, kls] = await settleBoth(askAll(places, options.signal), allKls(credited, options))
  const at = placesOf(credited, valued)
  const targetsOf: TargetsOf = (node, agent) => {
    const rewards = answerTargets(node, agent, (j) => childValue(node, j, agent, at, settings.criticType), target)
    const own = kls.get(node)![agent]
    if (!own) return rewards
    const coef = config.referenceKl?.coef ?? 0
    return rewards.map((value, j) =>
      value === null ? null : value - coef * own[node.answers[j]!.generations[agent]!]!,
    )
  }
  const raw = credited.map(({ node }) =>
    options.seats.map(({ index }) =>
      groupOf(node, index, { own: at.get(node)!.get(index), kls: kls.get(node)![index]!, targetsOf, settings }),
    ),
  )
  const groups = config.advantageNormalization ? normaliseGroups(credited, raw) : raw
  const nodes = credited.map((node, n): AnalysedNode => {
    const own = groups[n]!
    const samples = options.seats.flatMap((seat) =>
      seat.kind === 'trained' ? toSamples(node, seat, own[seat.index]!.advantages) : [],
    )
    return { ...node, groups: own, samples }
  })
  return { nodes, baselines: options.baselines, envStep, lessons: lessonsOf(critics, valued, targetsOf) }
}

type TargetsOf = (node: JointNode, agent: number) => (number | null)[]
type Places = ReadonlyMap<JointNode, ReadonlyMap<number, Valued>>

async function settleBoth<A, B>(a: Promise<A>, b: Promise<B>): Promise<[A, B]> {
  return (await settleAll<unknown>([a, b])) as [A, B]
}

function placesOf(credited: readonly CreditedNode[], valued: readonly Valued[]): Places {
  const at = new Map<JointNode, Map<number, Valued>>(credited.map(({ node }) => [node, new Map<number, Valued>()]))
  for (const place of valued) for (const agent of place.agents) at.get(place.node)!.set(agent, place)
  return at
}

/** KL of each completion to the reference, [agent][k] by node; null for agents without one. */
async function allKls(
  credited: readonly CreditedNode[],
  { config, seats, references, signal }: CriticOptions,
): Promise<ReadonlyMap<JointNode, readonly (readonly number[] | null)[]>> {
  const perNode = credited.map(async ({ node }) => {
    const ofAgents = seats.map(async ({ index, settings: { temperature } }) => {
      const reference = references[index] ?? null
      if (!config.referenceKl || !reference) return null
      const { estimator } = config.referenceKl
      return completionKls(node.prompts[index]!, node.completions[index]!, reference, {
        estimator,
        temperature,
        signal,
      })
    })
    return [node, await settleAll(ofAgents)] as const
  })
  return new Map(await settleAll(perNode))
}

/** All places of one critic in one call. */
async function askAll(places: readonly ValuedPlace[], signal: AbortSignal): Promise<Valued[]> {
  const byClient = groupBy(places, ({ critic }) => critic.client)
  const values = new Map<ValuedPlace, Float32Array>()
  for (const [client, own] of byClient) {
    const all = await client.values(
      own.flatMap(({ sequences }) => sequences),
      { signal },
    )
    let from = 0
    for (const place of own) values.set(place, all.slice(from, (from += place.sequences.length)))
  }
  return places.map((place) => ({ ...place, values: values.get(place)! }))
}

function childValue(node: JointNode, answer: number, agent: number, at: Places, type: 'v' | 'q'): number | null {
  const child = node.answers[answer]!.child
  const place = child && at.get(child)?.get(agent)
  return place ? placeValue(child, place, type) : null
}

interface GroupParts {
  /** Absent for agents that no critic judges. */
  readonly own: NodeValues | undefined
  readonly kls: readonly number[] | null
  readonly targetsOf: TargetsOf
  readonly settings: CriticSettings
}

function groupOf(node: JointNode, agent: number, { own, kls, targetsOf, settings }: GroupParts): AgentGroup {
  if (!own) {
    const nothing = node.completions[agent]!.map(() => null)
    return { agent, returns: nothing, advantages: nothing, kls, constant: true }
  }
  const { targets, expected } = completionCredit(node, agent, targetsOf(node, agent), own, settings.criticType)
  const advantages = targets.map((value, k) => {
    const base = expected[k] ?? null
    return value === null || base === null ? null : value - base
  })
  return { agent, returns: targets, expected, advantages, kls, constant: isConstant(advantages) }
}

const isConstant = (advantages: readonly (number | null)[]): boolean =>
  advantages.every((value) => value === null || value === 0)

/** Normalises over all nodes of a turn, agent by agent. */
function normaliseGroups(
  credited: readonly CreditedNode[],
  groups: readonly (readonly AgentGroup[])[],
): readonly (readonly AgentGroup[])[] {
  const result = groups.map((list) => [...list])
  const byTurn = groupBy([...credited.keys()], (n) => credited[n]!.node.turn)
  for (const indices of byTurn.values()) {
    for (const agent of (groups[0] ?? []).keys()) {
      const lists = indices.map((n) => groups[n]![agent]!.advantages)
      const all = normaliseAdvantages(lists.flat())
      let from = 0
      indices.forEach((n, i) => {
        const advantages = all.slice(from, (from += lists[i]!.length))
        result[n]![agent] = { ...groups[n]![agent]!, advantages, constant: isConstant(advantages) }
      })
    }
  }
  return result
}

function groupBy<T, K>(items: readonly T[], key: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const name = key(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return groups
}

/** The mean target of each sequence, over the answers that it stands for and the agents that it values. */
function lessonsOf(critics: readonly CriticSeat[], valued: readonly Valued[], targetsOf: TargetsOf): ValueLesson[] {
  return critics.map((critic) => {
    const own = valued.filter((place) => place.critic === critic)
    const rows = own.flatMap((place) => {
      const targets = place.agents.map((agent) => targetsOf(place.node, agent))
      return place.sequences.flatMap((sequence, s) => {
        const answers = place.node.answers.flatMap((_, j) => (place.sequenceOf(j) === s ? [j] : []))
        const counted = answers.flatMap((j) => targets.map((list) => list[j]!)).filter((value) => value !== null)
        if (counted.length === 0) return []
        const target = counted.reduce((sum, value) => sum + value, 0) / counted.length
        const { rowIndex, turn } = place.node
        return [{ sequence, target, old: place.values[s]!, place: { rowIndex, turn, agents: place.agents } }]
      })
    })
    return {
      critic,
      sequences: rows.map(({ sequence }) => sequence),
      targets: Float32Array.from(rows, ({ target }) => target),
      oldValues: Float32Array.from(rows, ({ old }) => old),
      places: rows.map(({ place }) => place),
      truncated: own.reduce((sum, { truncated }) => sum + truncated, 0),
    }
  })
}
