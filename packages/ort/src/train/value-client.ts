import {
  checkValueInputs,
  NonFiniteError,
  type ActorCriticClient,
  type CallOptions,
  type ValueLoss,
  type ValueResult,
} from '@selfplay/engine'
import { gradientName } from '../autodiff/index.js'
import type { TensorFile } from '../checkpoint/index.js'
import type { Session, Tensor } from '../runtime/types.js'
import { microBatches, type MicroBatch } from './batches.js'
import { OrtTrainingClient, type ClientOptions } from './client.js'
import type { ModelCore } from './model-core.js'
import { companions, disposeAll, type Companions, type Parameter } from './parameters.js'
import { maxBatchTokens } from './memory-plan.js'
import { valueGraph, type ValueGraphOptions } from './value-head.js'

/** The file of an exported folder that holds the head, and the version of its layout. */
export const VALUE_HEAD_FILE = 'value_head.safetensors'
export const VALUE_HEAD_FORMAT = 1

interface ValueSession {
  readonly session: Session
  readonly parameters: readonly string[]
}

/** Gradients of one pass or call: the policy's part in buffers of the core's, the head's in its own. */
interface ValueGradients {
  readonly policy: Companions
  readonly head: Companions
}

/** What is compared with what, in the order of the call's sequences. */
interface Aim {
  readonly targets: Float32Array
  readonly loss: ValueLoss
}

/** A decoder with a value head: a critic, and a policy on the same weights where it is asked to be one. */
export class OrtValueClient extends OrtTrainingClient implements ActorCriticClient {
  readonly #sessions = new Map<string, Promise<ValueSession>>()

  /** @param head the weights of `valueHeadWeights`; like the policy's, they now belong to the client. */
  constructor(core: ModelCore, parameters: readonly Parameter[], head: readonly Parameter[], options: ClientOptions) {
    super(core, parameters, options, head)
  }

  values(sequences: readonly Int32Array[], options: CallOptions = {}): Promise<Float32Array> {
    return this.inTurn(options, async () => {
      this.#check(sequences, undefined, {})
      return (await this.#run(sequences, null, options)).values
    })
  }

  forwardBackwardValues(
    sequences: readonly Int32Array[],
    targets: Float32Array,
    loss: ValueLoss = {},
    options: CallOptions = {},
  ): Promise<ValueResult> {
    return this.inTurn(options, async () => {
      this.#check(sequences, targets, loss)
      const { values, sum, gradients } = await this.#run(sequences, { targets, loss }, options)
      await this.accumulate(gradients!.policy, gradients!.head)
      return { loss: sum, values }
    })
  }

  #check(sequences: readonly Int32Array[], targets: Float32Array | undefined, loss: ValueLoss): void {
    const { vocabSize, contextLength } = this.info
    checkValueInputs(sequences, targets, loss, { vocabSize, contextLength })
  }

  /** Runs all micro-batches of a call. Gradients belong to the caller; none are kept when it fails. */
  async #run(sequences: readonly Int32Array[], aim: Aim | null, { signal }: CallOptions) {
    const data = sequences.map((tokens) => ({ tokens, targets: tokens, weights: lastOnly(tokens.length) }))
    const batches = microBatches(data, {
      maxTokens: maxBatchTokens(this.core.config, data, this.options.activationBytes),
    })
    const values = new Float32Array(sequences.length)
    if (aim) await this.core.makeRoom()
    let sum = 0
    let total: ValueGradients | undefined
    try {
      for (const batch of batches) {
        signal?.throwIfAborted()
        const pass = await this.#pass(batch, aim, sequences.length, signal)
        batch.datums.forEach((sequence, i) => (values[sequence] = pass.values[i]!))
        for (const loss of pass.losses ?? []) sum += loss
        if (!pass.gradients) continue
        if (total) await this.#merge(total, pass.gradients)
        else total = pass.gradients
      }
    } catch (error) {
      if (total) this.#giveBack(total)
      throw error
    }
    return { values, sum, gradients: total }
  }

  async #merge(into: ValueGradients, from: ValueGradients): Promise<void> {
    await this.core.math.add(into.policy, from.policy)
    await this.core.math.add(into.head, from.head)
    this.#giveBack(from)
  }

  #giveBack({ policy, head }: ValueGradients): void {
    this.core.giveGradients(policy)
    disposeAll(head.values())
  }

  /** One micro-batch through one graph. Rows and positions of the batch are in one order: one position per sequence. */
  async #pass(batch: MicroBatch, aim: Aim | null, count: number, signal: AbortSignal | undefined) {
    const { session, parameters } = await this.#session(aim && { clipRange: aim.loss.clip?.range ?? null })
    const own: Tensor[] = []
    const gradients = aim ? await this.#takeGradients(parameters) : undefined
    try {
      const feeds = { ...this.#feeds(batch, aim, count, own), ...this.#weights(parameters) }
      const written = gradients ? this.#gradientOutputs(gradients, parameters) : {}
      const wanted = { values: null, ...(aim && { losses: null }), ...written }
      const found = await session.run(feeds, wanted, signal ? { signal } : {})
      const read = async (name: string) => {
        own.push(found[name]!)
        return (await found[name]!.read()) as Float32Array
      }
      const values = await read('values')
      const losses = aim ? await read('losses') : undefined
      if (losses) checkLosses(batch, losses)
      return { values, losses, gradients }
    } catch (error) {
      if (gradients) this.#giveBack(gradients)
      throw error
    } finally {
      disposeAll(own)
    }
  }

  #feeds(batch: MicroBatch, aim: Aim | null, count: number, own: Tensor[]): Record<string, Tensor> {
    const { runtime } = this.core
    const [rows, n] = [batch.datums.length, batch.positions.length]
    const feeds: Record<string, Tensor> = {
      tokens: runtime.tensor('int32', batch.tokens, [rows, batch.length]),
      rows: runtime.tensor('int32', batch.positions, [n]),
    }
    if (aim) {
      const { coef = 1, weights, clip } = aim.loss
      const pick = (of: (sequence: number) => number) =>
        runtime.tensor('float32', Float32Array.from(batch.datums, of), [n])
      feeds.value_targets = pick((sequence) => aim.targets[sequence]!)
      feeds.value_weights = pick((sequence) => (coef * (weights?.[sequence] ?? 1)) / count)
      if (clip) feeds.old_values = pick((sequence) => clip.oldValues[sequence]!)
    }
    const { rope_cos, rope_sin, ...masks } = this.core.lengthFeeds(batch.length)
    own.push(...Object.values(feeds), ...Object.values(masks))
    return { ...feeds, rope_cos: rope_cos!, rope_sin: rope_sin!, ...masks }
  }

  #weights(names: readonly string[]): Record<string, Tensor> {
    const all = [...this.parameters, ...this.heads].filter(({ name }) => names.includes(name))
    return Object.fromEntries(all.map(({ name, weight }) => [name, weight]))
  }

  /** Buffers for the gradients; those that the graph does not write (the output matrix of an untied model) are zeroed. */
  async #takeGradients(written: readonly string[]): Promise<ValueGradients> {
    const policy = this.core.takeGradients(this.parameters)
    for (const [name, tensor] of policy) {
      if (written.includes(name)) continue
      if (tensor.data) tensor.data.fill(0)
      else await tensor.write(new Float32Array(tensor.size))
    }
    return { policy, head: companions(this.core.runtime, this.heads) }
  }

  #gradientOutputs({ policy, head }: ValueGradients, names: readonly string[]): Record<string, Tensor> {
    const buffers = new Map([...policy, ...head])
    return Object.fromEntries(names.map((name) => [gradientName(name), buffers.get(name)!]))
  }

  #session(loss: ValueGraphOptions['loss']): Promise<ValueSession> {
    const key = JSON.stringify(loss)
    const known = this.#sessions.get(key)
    if (known) return known
    const made = this.#compile(loss)
    this.#sessions.set(key, made)
    made.catch(() => this.#sessions.delete(key))
    return made
  }

  async #compile(loss: ValueGraphOptions['loss']): Promise<ValueSession> {
    const { model, parameters } = valueGraph(this.core.plan, this.heads, { loss })
    const weights: Record<string, Tensor> = {}
    for (const { name, file } of model.weights) if (!file) weights[name] = this.core.frozen.get(name)!
    const session = await this.core.runtime.createSession(model, { packing: 'none', weights })
    return { session, parameters }
  }

  protected override beside(): readonly TensorFile[] {
    const read = async (name: string) => this.heads.find((one) => one.name === name)!.weight.read()
    const metadata = { format: 'pt', kind: 'value_head', formatVersion: String(VALUE_HEAD_FORMAT) }
    return [{ name: VALUE_HEAD_FILE, parameters: this.heads, read, metadata }]
  }

  protected override async disposeSessions(): Promise<void> {
    for (const made of await Promise.allSettled(this.#sessions.values())) {
      if (made.status === 'fulfilled') await made.value.session.dispose()
    }
    this.#sessions.clear()
  }
}

/** Weights that pick the last of T positions. */
function lastOnly(T: number): Float32Array {
  const weights = new Float32Array(T)
  weights[T - 1] = 1
  return weights
}

function checkLosses(batch: MicroBatch, losses: Float32Array): void {
  const at = losses.findIndex((value) => !Number.isFinite(value))
  if (at < 0) return
  const sequence = batch.datums[at]!
  throw new NonFiniteError(
    `the value loss of sequence ${sequence} is ${losses[at]}: gradients and weights are as they were`,
    { sequence, got: losses[at] },
  )
}
