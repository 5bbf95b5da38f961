import { NonFiniteError, type CallOptions, type TrainingClient } from '@selfplay/engine'
import type { Renderer } from '@selfplay/renderers'
import { z } from 'zod'
import { batches, type Batch } from '../dataset.js'
import { optimiserOptions } from '../optimiser-settings.js'
import { holdRefusedGradients } from '../refused-gradients.js'
import type { LoopSession, RunNotice } from '../run/loop-session.js'
import type { UpdateSignals } from '../run/frame.js'
import { PolicyLoop, policySession, type LoopSetup } from '../run/policy-loop.js'
import {
  FREE_SUPERVISED_SETTINGS,
  batchOptions,
  resolveSupervisedConfig,
  type ResolvedSupervisedConfig,
  type ResolvedSupervisedSettings,
  type SupervisedConfig,
} from './config.js'
import {
  examplesOf,
  normaliseWeights,
  packByTokens,
  toSupervisedDatum,
  type SupervisedDatum,
  type SupervisedRow,
} from './examples.js'
import { nllOf } from './nll.js'

/** What a finished update was like. */
export interface SupervisedUpdate {
  /** From 1. */
  readonly step: number
  /** Null while an async data set keeps its length to itself. */
  readonly totalSteps: number | null
  /** Nats per weighted token, before the update; NaN when nothing of the batch could be trained on. */
  readonly nll: number
  /** The row of `metrics.jsonl`. */
  readonly metrics: Readonly<Record<string, number>>
  readonly notices: readonly RunNotice[]
}

export interface SupervisedResult {
  /** Updates finished. */
  readonly steps: number
  readonly seconds: number
  /** The newest checkpoint, when there is a run folder. */
  readonly checkpoint: string | null
  /** The row of the last update; null when there was none in this session. */
  readonly metrics: Readonly<Record<string, number>> | null
}

const count = z.number().int().nonnegative()
/** Everything that decides the rest of a run besides weights and optimiser: `step` is also the place in the data set. */
const stateSchema = z.strictObject({ step: count, evaluatedAt: z.number().int(), seconds: z.number().nonnegative() })
type SupervisedState = z.output<typeof stateSchema>

/**
 * Trains a policy on given answers by maximum likelihood.
 *
 * @throws ConfigError before anything happens, for options that cannot be used; DatasetError naming the row; the signal's reason
 *   when aborted, after a checkpoint that resumes.
 */
export const trainSupervised = (config: SupervisedConfig, options: CallOptions = {}): Promise<SupervisedResult> =>
  new SupervisedTrainer(config).train(options)

/** The loop behind {@link trainSupervised}, for those who want to see each update. */
export class SupervisedTrainer extends PolicyLoop<SupervisedState, SupervisedUpdate> {
  readonly config: ResolvedSupervisedConfig
  protected readonly session: LoopSession<SupervisedState>
  protected readonly setup: LoopSetup
  private newest: SupervisedUpdate | null = null

  /** @throws ConfigError */
  constructor(config: SupervisedConfig) {
    super()
    this.config = resolveSupervisedConfig(config)
    const { settings, client, evaluators, run, trackers, renderer, onNotice } = this.config
    this.setup = { ...settings, client, evaluators }
    this.session = policySession({
      kind: 'supervised',
      run,
      client,
      trackers,
      settings: { ...settings, renderer: renderer?.name ?? null },
      free: FREE_SUPERVISED_SETTINGS,
      stateSchema,
      initialState: () => ({ step: 0, evaluatedAt: -1, seconds: 0 }),
      keepCheckpoints: settings.keepCheckpoints,
      onNotice,
    })
  }

  /** Trains to the end. See {@link trainSupervised}. */
  async train(options: CallOptions = {}): Promise<SupervisedResult> {
    for await (const _update of this.updates(options)) {
      // The loop body is the caller's; train() has none.
    }
    const { step, seconds } = this.state!
    return { steps: step, seconds, checkpoint: this.session.checkpoint, metrics: this.newest?.metrics ?? null }
  }

  get totalSteps(): number | null {
    return this.config.totalSteps
  }

  protected get lengthSetting(): string {
    const { steps, epochs } = this.config.settings
    return steps !== null && this.state!.step >= steps ? `steps ${steps}` : `epochs ${epochs}`
  }

  protected async *loop(signal: AbortSignal): AsyncGenerator<SupervisedUpdate, void, undefined> {
    const { dataset, settings, totalSteps } = this.config
    if (totalSteps !== null && this.state!.step >= totalSteps) return
    const source = batches(dataset, { ...batchOptions(dataset, settings), skip: this.state!.step, signal })
    for await (const batch of source) {
      signal.throwIfAborted()
      const { step, metrics } = await this.update(batch, signal)
      const last = batch.last || step === totalSteps
      if (!last && !signal.aborted) await this.evaluateIfDue(false, signal)
      await this.endUpdate()
      const nll = metrics['train_mean_nll'] ?? Number.NaN
      this.newest = { step, totalSteps, nll, metrics, notices: this.session.pending.splice(0) }
      this.config.onUpdate?.(this.newest)
      yield this.newest
      if (last) return
    }
  }

  private async update(batch: Batch<SupervisedRow>, signal: AbortSignal) {
    const { client, settings, renderer, totalSteps } = this.config
    const before = this.state!
    const step = before.step + 1
    const started = performance.now()
    const { metrics } = await this.change(signal, async (signals) => {
      const done = await supervisedUpdate(client, batch, {
        settings,
        renderer,
        step: before.step,
        totalSteps,
        ...signals,
      })
      const seconds = (performance.now() - started) / 1000
      const tokens = done['num_tokens']!
      const row = {
        step,
        epoch: batch.epoch,
        ...(totalSteps !== null && { progress: step / totalSteps }),
        ...done,
        'time/total': seconds,
        'perf/tokens_per_second': seconds > 0 ? tokens / seconds : 0,
      }
      return { state: { ...before, step, seconds: before.seconds + seconds }, metrics: row as Record<string, number> }
    })
    await this.session.update(metrics)
    const lost = metrics['num_dropped']!
    if (lost > 0) {
      const message = `update ${step}: ${lost} example(s) have no weighted token within maxLength and were left out`
      await this.session.notice({ code: 'dropped_examples', level: 'warning', message }, step)
    }
    return { step, metrics }
  }
}

export interface SupervisedUpdateOptions extends Partial<UpdateSignals> {
  readonly settings: ResolvedSupervisedSettings
  readonly renderer: Renderer | undefined
  /** Updates finished before this one. */
  readonly step: number
  readonly totalSteps: number | null
}

/**
 * One update on the rows of a batch: examples, calls, one optimiser step. The gradient is that of the same mean whatever the
 * calls are.
 *
 * @returns metrics; `train_mean_nll` is the mean over all weighted tokens of the batch.
 */
export async function supervisedUpdate(
  client: TrainingClient,
  batch: Batch<SupervisedRow>,
  options: SupervisedUpdateOptions,
): Promise<Record<string, number>> {
  const { settings, step } = options
  const maxLength = settings.maxLength ?? client.info.contextLength
  const examples = batch.rows.flatMap(({ row, index }) =>
    examplesOf(row, index, { renderer: options.renderer, trainOn: settings.trainOn }).map((example) => ({
      row: index,
      found: toSupervisedDatum(example, maxLength),
    })),
  )
  const kept = examples.filter((example): example is Kept => example.found !== null)
  const optim = optimiserOptions(settings, step, options.totalSteps ?? step + 1)
  const learnt = await learnCalls(client, kept, options)
  const { gradNorm } = kept.length > 0 ? await client.optimStep(optim) : { gradNorm: 0 }
  return {
    num_sequences: kept.length,
    num_tokens: kept.reduce((sum, { found }) => sum + found.datum.tokens.length, 0),
    num_loss_tokens: learnt.weight,
    num_truncated: kept.filter(({ found }) => found.truncated).length,
    num_dropped: examples.length - kept.length,
    num_calls: learnt.calls,
    learning_rate: optim.learningRate,
    ...(learnt.weight > 0 && { train_mean_nll: learnt.nats / learnt.weight, loss: learnt.loss, grad_norm: gradNorm }),
  }
}

interface Kept {
  readonly row: number
  readonly found: SupervisedDatum
}

/** Accumulates the gradients of all examples, in calls of limited size. */
async function learnCalls(client: TrainingClient, kept: readonly Kept[], options: SupervisedUpdateOptions) {
  const { settings, step, trainSignal, onWeightsChange } = options
  const data = kept.map(({ found }) => found)
  const scaled = normaliseWeights(data, settings.reduction)
  const lengths = data.map(({ datum }) => datum.tokens.length)
  const calls = packByTokens(lengths, settings.maxTokensPerCall)
  let nats = 0
  let weight = 0
  let loss = 0
  for (const [number, items] of calls.entries()) {
    const datums = items.map((index) => scaled[index]!)
    const call = trainSignal ? { signal: trainSignal } : {}
    const result = await client.forwardBackward(datums, { name: 'cross_entropy' }, call).catch((error: unknown) => {
      if (number > 0) holdRefusedGradients(client)
      const rows = items.map((index) => kept[index]!.row)
      throw nameRow(error, rows, step)
    })
    // From here on the client holds gradients: the update gets to its end, or the run is given up.
    onWeightsChange?.()
    const whole = items.map((index) => data[index]!.datum)
    const part = nllOf(whole, result.logprobs)
    nats += part.nats
    weight += part.weight
    loss += result.loss
  }
  return { nats, weight, loss, calls: calls.length }
}

function nameRow(error: unknown, rows: readonly number[], step: number): unknown {
  if (!(error instanceof NonFiniteError)) return error
  const index = error.details['datum']
  const row = typeof index === 'number' ? rows[index] : undefined
  if (row === undefined) return error
  return new NonFiniteError(`update ${step + 1}, row ${row}: ${error.message}; the weights are unchanged`, {
    ...error.details,
    step: step + 1,
    row,
  })
}
