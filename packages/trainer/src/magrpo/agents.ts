import { InvalidInputError, type SamplingClient, type TrainingClient } from '@selfplay/engine'
import { checkAnswerLength } from '../check-answer-length.js'
import { ConfigError } from '../errors.js'
import type { AgentSettings, ResolvedConfig } from './config.js'
import type { PromptRenderer, ReplyArgs, TextCodec } from './types.js'

interface TextSide {
  readonly tokenizer?: TextCodec | undefined
  /** Needed for prompts that are messages. */
  readonly renderer?: PromptRenderer | undefined
}

/** A policy that the trainer trains. The same client in two places is one policy with one optimiser step per update. */
export type TrainableAgent = TrainingClient & TextSide

/** Samples but is never trained; see {@link frozenAgent}. */
export interface FrozenAgent extends TextSide {
  readonly kind: 'frozen'
  readonly policy: TrainingClient | SamplingClient
  readonly eosTokenIds: readonly number[]
}

/** Answers by a function; see {@link scriptedAgent}. */
export interface ScriptedAgent {
  readonly kind: 'scripted'
  readonly reply: (args: ReplyArgs<unknown>, options: { readonly signal: AbortSignal }) => string | Promise<string>
}

export type Agent = TrainableAgent | FrozenAgent | ScriptedAgent

/**
 * An agent that plays along with its weights as they are.
 *
 * @param policy a training client that no other agent trains, or any sampling client, for instance a snapshot.
 * @param options.eosTokenIds ends of a completion when `policy` is a sampling client, which does not know them. Default none.
 */
export function frozenAgent(
  policy: (TrainingClient | SamplingClient) & TextSide,
  options: TextSide & { readonly eosTokenIds?: readonly number[] } = {},
): FrozenAgent {
  const tokenizer = options.tokenizer ?? policy.tokenizer
  const renderer = options.renderer ?? policy.renderer
  return {
    kind: 'frozen',
    policy,
    eosTokenIds: options.eosTokenIds ?? (isTrainingClient(policy) ? policy.info.eosTokenIds : []),
    ...(tokenizer && { tokenizer }),
    ...(renderer && { renderer }),
  }
}

/** An agent that gives the replies in turn, over and over (completion g of a node gives reply g), or whatever the function says. */
export function scriptedAgent(replies: readonly string[] | ScriptedAgent['reply']): ScriptedAgent {
  if (typeof replies === 'function') return { kind: 'scripted', reply: replies }
  if (replies.length === 0) throw new InvalidInputError('scriptedAgent: expected at least one reply, got none')
  return { kind: 'scripted', reply: ({ generation }) => replies[generation % replies.length] as string }
}

const isTrainingClient = (value: TrainingClient | SamplingClient): value is TrainingClient => 'forwardBackward' in value

/** Weights that seats share. */
export interface Policy {
  /** Position in the list of policies: the name of its part in a checkpoint. */
  readonly index: number
  /** Null for a bare sampling client. */
  readonly client: TrainingClient | null
  readonly fixedSampler: SamplingClient | null
  readonly trained: boolean
  readonly seats: number[]
}

/** How an agent samples and learns: the config's settings with its own on top. */
export type SeatSettings = { readonly [K in keyof AgentSettings]-?: Exclude<AgentSettings[K], undefined> }

/** A place at the table: one agent with its settings. */
export interface Seat {
  readonly index: number
  readonly kind: 'trained' | 'frozen' | 'scripted'
  readonly policy: Policy | null
  readonly codec: TextCodec | null
  readonly renderer: PromptRenderer | null
  readonly reply: ScriptedAgent['reply'] | null
  readonly settings: SeatSettings
  /** What ends a completion: end tokens of the model and the config's stops; of a chat answer, the renderer's too. */
  readonly stop: readonly (number | string)[]
  readonly chatStop: readonly (number | string)[]
}

export interface Table {
  readonly seats: readonly Seat[]
  readonly policies: readonly Policy[]
}

/**
 * Works out who shares weights with whom and who speaks with which settings.
 *
 * @param tokenizer for agents that carry none: one for all, or one per agent.
 * @throws ConfigError, InvalidInputError when there are no agents, too few tokenizers, answers longer than a context, or one client
 *   is trained and frozen.
 */
export function seatAgents(
  agents: readonly Agent[],
  config: ResolvedConfig,
  tokenizer?: TextCodec | readonly TextCodec[],
): Table {
  checkAgents(agents)
  if (agents.length === 0) throw new ConfigError('agents: expected at least one, got none')
  if (isList(tokenizer) && tokenizer.length !== agents.length) {
    throw new ConfigError(`tokenizer: expected one, or one per agent (${agents.length}), got ${tokenizer.length}`, {
      expected: agents.length,
      got: tokenizer.length,
    })
  }
  const policies: Policy[] = []
  const seats = agents.map((agent, index): Seat => {
    const settings = settingsOf(config, index)
    if (isScripted(agent)) {
      const stop = config.stop
      const none = { policy: null, codec: null, renderer: null }
      return { index, kind: 'scripted', ...none, reply: agent.reply, settings, stop, chatStop: stop }
    }
    const trained = !isFrozen(agent)
    const source = trained ? agent : agent.policy
    checkLength(config, index, source)
    const policy = findPolicy(policies, source, trained, index)
    const codec = (isList(tokenizer) ? tokenizer[index] : tokenizer) ?? agent.tokenizer ?? null
    if (!codec) {
      throw new ConfigError(`agents[${index}] has no tokenizer: give the trainer one, or load the agent with its own`, {
        agent: index,
      })
    }
    const eos = trained ? agent.info.eosTokenIds : agent.eosTokenIds
    const renderer = agent.renderer ?? null
    const stop = [...new Set([...eos, ...settings.stop])]
    const chatStop = [...new Set([...stop, ...(renderer?.stop ?? [])])]
    const kind = trained ? 'trained' : 'frozen'
    return { index, kind, policy, codec, renderer, reply: null, settings, stop, chatStop }
  })
  for (const { seats: sharing } of policies) checkRates(sharing.map((index) => seats[index]!))
  if (!policies.some((policy) => policy.trained))
    throw new ConfigError('agents: expected at least one to train, got none')
  return { seats, policies }
}

/** How many policies are sampled or trained at the same time; without a number, all of those that are made for it. */
export function policiesAtOnce(
  { maxConcurrentPolicies }: Pick<ResolvedConfig, 'maxConcurrentPolicies'>,
  seats: readonly Pick<Seat, 'policy'>[],
): number {
  if (maxConcurrentPolicies !== null) return maxConcurrentPolicies
  const fits = ({ client }: Policy) => client?.info.sideBySide === true
  return seats.every(({ policy }) => !policy || fits(policy)) ? seats.length : 1
}

function checkAgents(agents: unknown): void {
  if (!Array.isArray(agents)) throw new ConfigError(`agents: expected a list of clients, got ${typeof agents}`)
  agents.forEach((agent: object | null | undefined, index) => {
    const known = agent && ('kind' in agent || ('info' in agent && 'forwardBackward' in agent))
    if (known) return
    throw new ConfigError(
      `agents[${index}]: expected a client of loadAgents, frozenAgent(...) or scriptedAgent(...), got something else`,
      { agent: index },
    )
  })
}

const isList = (value: TextCodec | readonly TextCodec[] | undefined): value is readonly TextCodec[] =>
  Array.isArray(value)
const isScripted = (agent: Agent): agent is ScriptedAgent => 'kind' in agent && agent.kind === 'scripted'
const isFrozen = (agent: TrainableAgent | FrozenAgent): agent is FrozenAgent =>
  'kind' in agent && agent.kind === 'frozen'

function findPolicy(
  policies: Policy[],
  source: TrainingClient | SamplingClient,
  trained: boolean,
  seat: number,
): Policy {
  const known = policies.find((policy) => policy.client === source || policy.fixedSampler === source)
  if (!known) {
    const client = isTrainingClient(source) ? source : null
    const fixedSampler = client ? null : (source as SamplingClient)
    const policy = { index: policies.length, client, fixedSampler, trained, seats: [seat] }
    policies.push(policy)
    return policy
  }
  if (known.trained !== trained) {
    throw new ConfigError(
      `agents[${seat}] and agents[${known.seats[0]}] are one client, trained in one place and frozen in the other: ` +
        'freeze a snapshot of it, or load it a second time',
      { agents: [known.seats[0], seat] },
    )
  }
  known.seats.push(seat)
  return known
}

function settingsOf(config: ResolvedConfig, index: number): SeatSettings {
  const { maxNewTokens, temperature, topP, topK, stop, agentLearningRate } = config
  const own = Object.entries(config.perAgent[index] ?? {}).filter(([, value]) => value !== undefined)
  return {
    maxNewTokens,
    temperature,
    topP,
    topK,
    stop,
    learningRate: agentLearningRate,
    ...Object.fromEntries(own),
  }
}

function checkLength(config: ResolvedConfig, index: number, source: TrainingClient | SamplingClient): void {
  const own = config.perAgent[index]?.maxNewTokens
  checkAnswerLength({
    option: own === undefined ? 'config.maxNewTokens' : `config.perAgent[${index}].maxNewTokens`,
    tokens: own ?? config.maxNewTokens,
    contextLength: isTrainingClient(source) ? source.info.contextLength : source.contextLength,
    model: `agents[${index}]`,
  })
}

function checkRates(sharing: readonly Seat[]): void {
  const [first, ...others] = sharing
  const other = others.find(({ settings }) => settings.learningRate !== first!.settings.learningRate)
  if (!other) return
  throw new ConfigError(
    `agents ${first!.index} and ${other.index} share weights but have learning rates ${first!.settings.learningRate} and ` +
      `${other.settings.learningRate}: one policy takes one step, give both the same`,
    { agents: [first!.index, other.index] },
  )
}

/** Hands out samplers of the policies as they are now; keeps each until its policy has stepped. */
export class Samplers {
  private readonly open = new Map<Policy, SamplingClient>()

  async of(policy: Policy): Promise<SamplingClient> {
    if (policy.fixedSampler) return policy.fixedSampler
    const client = policy.client as TrainingClient
    const held = this.open.get(policy)
    if (held && held.policyVersion === client.step) return held
    await held?.dispose()
    const fresh = await client.sampler()
    this.open.set(policy, fresh)
    return fresh
  }

  /** Lets go of all of them, for instance because `loadState` changed the weights without a step. */
  async release(): Promise<void> {
    const held = [...this.open.values()]
    this.open.clear()
    await Promise.all(held.map((sampler) => sampler.dispose()))
  }
}
