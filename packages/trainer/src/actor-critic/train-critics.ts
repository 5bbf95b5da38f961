import { NonFiniteError, type ValueLoss } from '@selfplay/engine'
import type { Policy } from '../magrpo/agents.js'
import type { ExtraTraining } from '../magrpo/extension.js'
import type { CriticAnalysis, ValueLesson } from './analyse.js'
import type { CriticSettings } from './config.js'
import type { CriticSeat } from './critics.js'

type Place = Pick<ExtraTraining, 'step' | 'signal'>

/** Training of the critics of one update: before the step of a policy that is its own critic, and after all policies. */
export class CriticTraining {
  private readonly lessons: readonly ValueLesson[]
  private readonly settings: CriticSettings
  private readonly agentRates: readonly number[]
  /** Value losses of this update, by critic. */
  private readonly losses = new Map<CriticSeat, number[]>()
  private readonly gradNorms = new Map<CriticSeat, number[]>()

  /** @param agentRates learning rates of the agents: what critics that share their weights, and by default all, have. */
  constructor({ lessons }: Pick<CriticAnalysis, 'lessons'>, settings: CriticSettings, agentRates: readonly number[]) {
    this.lessons = lessons
    this.settings = settings
    this.agentRates = agentRates
  }

  /** Adds the value gradients of a policy's own head to its gradients. */
  readonly beforeStep = async (policy: Policy, place: Place): Promise<void> => {
    const lesson = this.lessons.find(({ critic }) => critic.policy === policy)
    if (lesson && lesson.sequences.length > 0) await this.addGradients(lesson, place)
  }

  /** The critics' own steps. A policy that is its own critic has had the first one together with its samples. */
  readonly train = async (training: ExtraTraining): Promise<Record<string, number>> => {
    for (const lesson of this.lessons) {
      if (lesson.sequences.length === 0) continue
      const { policy } = lesson.critic
      const done = policy && training.stepped.has(policy) ? 1 : 0
      for (let n = done; n < this.settings.criticUpdates; n++) {
        training.signal.throwIfAborted()
        await this.addGradients(lesson, training)
        training.onWeightsChange()
        const { gradNorm } = await lesson.critic.client
          .optimStep(training.optim(this.rateOf(lesson.critic)))
          .catch((error: unknown) => {
            throw error instanceof NonFiniteError ? namePlace(error, lesson, lesson.critic, training.step) : error
          })
        add(this.gradNorms, lesson.critic, gradNorm)
      }
    }
    return this.metrics(training)
  }

  private async addGradients({ critic, ...lesson }: ValueLesson, { step, signal }: Place): Promise<void> {
    const { valueLossCoef: coef, valueClipRange } = this.settings
    const loss: ValueLoss = {
      coef,
      ...(valueClipRange !== null && { clip: { range: valueClipRange, oldValues: lesson.oldValues } }),
    }
    const result = await critic.client
      .forwardBackwardValues(lesson.sequences, lesson.targets, loss, { signal })
      .catch((error: unknown) => {
        throw error instanceof NonFiniteError ? namePlace(error, lesson, critic, step) : error
      })
    add(this.losses, critic, result.loss / coef)
  }

  private rateOf({ policy, agents }: CriticSeat): number {
    const agentRate = this.agentRates[agents[0]!]!
    return policy ? agentRate : (this.settings.criticLearningRate ?? agentRate)
  }

  /**
   * Per critic: `value_loss` (mean squared error before the first step, clip included), `value_mean`, `target_mean`,
   * `explained_variance` (1 - variance of target - value over that of the target; absent where all targets are equal),
   * `grad_norm` of its own steps, `learning_rate`, `truncated` (share of what it was to read that did not fit). Per turn:
   * `turn_k/value_loss` over all critics.
   */
  private metrics(training: ExtraTraining): Record<string, number> {
    const metrics: Record<string, number> = {}
    const errors = new Map<number, number[]>()
    for (const { critic, sequences, targets, oldValues, places, truncated } of this.lessons) {
      if (sequences.length === 0) continue
      const { name } = critic
      metrics[`${name}/value_loss`] = this.losses.get(critic)![0]!
      metrics[`${name}/value_mean`] = mean(oldValues)
      metrics[`${name}/target_mean`] = mean(targets)
      const spread = variance(targets)
      if (spread > 1e-12) {
        metrics[`${name}/explained_variance`] = 1 - variance(targets.map((y, n) => y - oldValues[n]!)) / spread
      }
      const norms = this.gradNorms.get(critic)
      if (norms) metrics[`${name}/grad_norm`] = mean(norms)
      metrics[`${name}/learning_rate`] = training.optim(this.rateOf(critic)).learningRate
      metrics[`${name}/truncated`] = truncated / sequences.length
      places.forEach(({ turn }, n) => {
        errors.set(turn, [...(errors.get(turn) ?? []), (targets[n]! - oldValues[n]!) ** 2])
      })
    }
    for (const [turn, list] of errors) metrics[`turn_${turn}/value_loss`] = mean(list)
    return metrics
  }
}

function add(map: Map<CriticSeat, number[]>, critic: CriticSeat, value: number): void {
  map.set(critic, [...(map.get(critic) ?? []), value])
}

const mean = (values: ArrayLike<number>): number => {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]!
  return sum / values.length
}

const variance = (values: Float32Array): number => {
  const centre = mean(values)
  return mean(values.map((value) => (value - centre) ** 2))
}

function namePlace(
  error: NonFiniteError,
  { places }: Pick<ValueLesson, 'places'>,
  { name }: CriticSeat,
  step: number,
): NonFiniteError {
  const index = error.details['sequence']
  const place = typeof index === 'number' ? places[index] : undefined
  const what = { ...error.details, step: step + 1, critic: name }
  if (!place) return new NonFiniteError(`update ${step + 1}, ${name}: ${error.message}`, what)
  const { rowIndex, turn, agents } = place
  return new NonFiniteError(
    `update ${step + 1}, ${name}, row ${rowIndex}, turn ${turn}, agent ${agents.join(', ')}: ${error.message}`,
    { ...what, row: rowIndex, turn, agents: [...agents] },
  )
}
