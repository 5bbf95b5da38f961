import { isCritic, type CriticClient } from '@selfplay/engine'
import { ConfigError } from '../errors.js'
import type { Policy, Seat, Table } from '../magrpo/agents.js'
import type { TextCodec } from '../magrpo/types.js'

/** A critic, with the tokenizer of its text where it has one of its own. */
export type AgentCritic = CriticClient & { readonly tokenizer?: TextCodec | undefined }

/** A critic at work: whose values it gives, and how it reads text. */
export interface CriticSeat {
  readonly index: number
  readonly client: CriticClient
  /** Agents whose values it gives. */
  readonly agents: readonly number[]
  /** How it reads; null: it reads the ids of the agents it judges. */
  readonly codec: TextCodec | null
  /** The policy whose weights it shares; null for a critic of its own. */
  readonly policy: Policy | null
  /** Its name in checkpoints and metrics. */
  readonly name: string
}

const trainedSeats = ({ seats }: Table): Seat[] => seats.filter(({ kind }) => kind === 'trained')

/**
 * A critic per trained agent: its own value head, or the separate ones that are given ([agent]; the same one twice is one).
 *
 * @throws ConfigError when one is missing, is no critic, or reads other ids than its agent writes.
 */
export function criticPerAgent(table: Table, critics: readonly (AgentCritic | null)[] | undefined): CriticSeat[] {
  if (critics && critics.length !== table.seats.length) {
    throw new ConfigError(`critics: expected one per agent (${table.seats.length}), got ${critics.length}`, {
      expected: table.seats.length,
      got: critics.length,
    })
  }
  const found: (Omit<CriticSeat, 'agents'> & { agents: number[] })[] = []
  for (const seat of trainedSeats(table)) {
    const client = critics ? critics[seat.index] : seat.policy!.client
    if (!client || !isCritic(client)) throw noCritic(seat.index, critics !== undefined)
    const policy = table.policies.find((one) => one.client !== null && Object.is(one.client, client)) ?? null
    if (policy && policy !== seat.policy) {
      throw new ConfigError(`critics[${seat.index}] is an agent of the table, but not agent ${seat.index} itself`, {
        agent: seat.index,
      })
    }
    const codec = policy ? null : codecFor(client as AgentCritic, seat)
    const known = found.find((one) => one.client === client)
    if (known) known.agents.push(seat.index)
    else {
      const index = found.length
      found.push({ index, client, agents: [seat.index], codec, policy, name: `critic_${seat.index}` })
    }
  }
  return found
}

/**
 * One critic for all agents. It reads text: with its own tokenizer, or with the first agent's where the vocabularies match.
 *
 * @throws ConfigError when it is none, is also an agent, or has no tokenizer that fits.
 */
export function sharedCritic(table: Table, critic: AgentCritic | undefined): CriticSeat {
  if (!critic || !isCritic(critic)) {
    throw new ConfigError('critic: expected a critic, e.g. from loadCritic, got none: the agents share one here')
  }
  if (table.policies.some(({ client }) => client !== null && Object.is(client, critic))) {
    throw new ConfigError(
      'critic is also an agent: the shared critic has weights of its own. IACTrainer has agents judge themselves',
    )
  }
  const first = trainedSeats(table)[0]!
  const codec = critic.tokenizer ?? fallbackCodec(critic, first)
  const agents = table.seats.map(({ index }) => index)
  return { index: 0, client: critic, agents, codec, policy: null, name: 'critic' }
}

function noCritic(agent: number, given: boolean): ConfigError {
  return given
    ? new ConfigError(`critics[${agent}]: expected a critic for trained agent ${agent}, got none`, { agent })
    : new ConfigError(
        `agents[${agent}] has no value head, and there are no critics: load it with loadActorCritics, or pass critics`,
        { agent },
      )
}

/** Ids pass as they are where both read one vocabulary; a critic with another tokenizer gets text. */
function codecFor(critic: AgentCritic, seat: Seat): TextCodec | null {
  const own = critic.tokenizer
  if (own && !(critic.info.vocabSize === seat.policy!.client!.info.vocabSize && sameCodec(own, seat.codec!))) return own
  fallbackCodec(critic, seat)
  return null
}

/** Covers letters, digits, spaces, several scripts: two vocabularies that agree on all of it are taken for one. */
const PROBE =
  'The 3 quick foxes:\n\t"jump" over 12345 lazy dogs, don\'t they? Größe, naïve, 漢字, Привет, 🙂 = {x[0] != y;}'

function sameCodec(a: TextCodec, b: TextCodec): boolean {
  return a === b || String(a.encode(PROBE)) === String(b.encode(PROBE))
}

function fallbackCodec(critic: AgentCritic, seat: Seat): TextCodec {
  const own = critic.info.vocabSize
  const agents = seat.policy!.client!.info.vocabSize
  if (own === agents) return seat.codec!
  throw new ConfigError(
    `a critic with ${own} ids has no tokenizer, and agent ${seat.index} writes in a vocabulary of ${agents}: load the critic ` +
      'with its tokenizer',
    { agent: seat.index, critic: own, expected: agents },
  )
}
