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
import { nonFiniteAt, type MicroBatch } from './batches.js'
import { OrtTrainingClient, type ClientOptions } from './client.js'
import { cutForLanes, runLanes, sideBySide, type GradientBuffers } from './lanes.js'
import type { ModelCore } from './model-core.js'
import { companions, disposeAll, type Companions, type Parameter } from './parameters.js'
import { valueGraph } from './value-head.js'

/** The file of an exported folder that holds the head, and the version of its layout. */
export const VALUE_HEAD_FILE = 'value_head.safetensors'
export const VALUE_HEAD_FORMAT = 1

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

/** What all micro-batches of a call have in common. */
interface ValueCall {
  readonly session: Session
  /** What the graph reads, and has gradients of. */
  readonly read: readonly Parameter[]
  readonly aim: Aim | null
  /** Sequences of the call. */
  readonly count: number
  readonly options: CallOptions
}

/** A decoder with a value head: a critic, and a policy on the same weights where it is asked to be one. */
export class OrtValueClient extends OrtTrainingClient implements ActorCriticClient {
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
  async #run(sequences: readonly Int32Array[], aim: Aim | null, options: CallOptions) {
    const { core } = this
    const data = sequences.map((tokens) => ({ tokens, targets: tokens, weights: lastOnly(tokens.length) }))
    const batches = cutForLanes(core, data, this.options)
    if (aim) await core.makeRoom()
    const { session, inputs } = await this.#session(aim, sideBySide(core, batches.length))
    const read = [...this.parameters, ...this.heads].filter(({ name }) => inputs.includes(name))
    const call = { session, read, aim, count: sequences.length, options }
    const lanes = { ...options, batches: batches.length, buffers: aim ? this.#buffers(inputs) : undefined }
    const values = new Float32Array(sequences.length)
    /** Of each micro-batch: they are summed in its order. */
    const losses: Float32Array[] = []
    const gradients = await runLanes(core, lanes, async (i, into) => {
      const found = await this.#pass(call, batches[i]!, into)
      batches[i]!.datums.forEach((sequence, row) => (values[sequence] = found.values[row]!))
      if (found.losses) losses[i] = found.losses
    })
    let sum = 0
    for (const ofBatch of losses) for (const loss of ofBatch) sum += loss
    return { values, sum, gradients }
  }

  /** One micro-batch through one graph. Rows and positions of the batch are in one order: one position per sequence. */
  async #pass({ session, read, aim, count, options }: ValueCall, batch: MicroBatch, into: ValueGradients | undefined) {
    const own: Tensor[] = []
    try {
      const feeds = this.#feeds(batch, aim, count, own)
      const wanted: Record<string, Tensor | null> = { values: null, ...(aim && { losses: null }) }
      for (const { name, weight } of read) {
        feeds[name] = weight
        if (into) wanted[gradientName(name)] = (into.policy.get(name) ?? into.head.get(name))!
      }
      const found = await session.run(feeds, wanted, options)
      const take = async (name: string) => {
        own.push(found[name]!)
        return (await found[name]!.read()) as Float32Array
      }
      const values = await take('values')
      const losses = aim ? await take('losses') : undefined
      if (losses) checkLosses(batch, losses)
      return { values, losses }
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

  /** Those of the policy that the graph does not write (the output matrix of an untied model) are zeroed. */
  #buffers(written: readonly string[]): GradientBuffers<ValueGradients> {
    const { core } = this
    return {
      take: async () => {
        const policy = core.takeGradients(this.parameters)
        for (const [name, tensor] of policy) {
          if (written.includes(name)) continue
          if (tensor.data) tensor.data.fill(0)
          else await tensor.write(new Float32Array(tensor.size))
        }
        return { policy, head: companions(core.runtime, this.heads) }
      },
      give: ({ policy, head }) => {
        core.giveGradients(policy)
        disposeAll(head.values())
      },
      add: async (into, from) => {
        await core.math.add(into.policy, from.policy)
        await core.math.add(into.head, from.head)
      },
    }
  }

  #session(aim: Aim | null, inLane: boolean) {
    const loss = aim && { clipRange: aim.loss.clip?.range ?? null }
    const key = ['values', this.heads.map(({ shape }) => shape), loss]
    return this.core.compiled(key, () => valueGraph(this.core.plan, this.heads, { loss }), { inLane })
  }

  protected override beside(): readonly TensorFile[] {
    const read = async (name: string) => this.heads.find((one) => one.name === name)!.weight.read()
    const metadata = { format: 'pt', kind: 'value_head', formatVersion: String(VALUE_HEAD_FORMAT) }
    return [{ name: VALUE_HEAD_FILE, parameters: this.heads, read, metadata }]
  }
}

/** Weights that pick the last of T positions. */
function lastOnly(T: number): Float32Array {
  const weights = new Float32Array(T)
  weights[T - 1] = 1
  return weights
}

function checkLosses(batch: MicroBatch, losses: Float32Array): void {
  const at = nonFiniteAt(batch, losses)
  if (at < 0) return
  const sequence = batch.datums[at]!
  throw new NonFiniteError(
    `the value loss of sequence ${sequence} is ${losses[at]}: gradients and weights are as they were`,
    { sequence, got: losses[at] },
  )
}
