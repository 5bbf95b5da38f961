import { duration, fixed, magnitude, mean, short } from './numbers.js'
import { dim, type Screen } from './screen.js'

/** What a progress line says. */
export interface ProgressStep {
  /** From 1. */
  readonly step: number
  /** Null: unknown. */
  readonly total: number | null
  /** Mean reward of each turn of this update; NaN for one without rewards. */
  readonly rewards: readonly number[]
  /** Norm of the gradient, mean over agents; undefined when no agent took a step. */
  readonly gradient: number | undefined
  readonly tokensPerSecond: number
  readonly etaSeconds: number | null
  /** Whether this update gets a line where lines cannot be rewritten. */
  readonly isLogged: boolean
}

/** Updates whose mean reward is shown. */
const WINDOW = 10
const BAR = { most: 28, least: 6 } as const

/** What the line says the rewards are: of each turn, the mean over the last updates that have one. */
export interface ShownReward {
  readonly means: readonly number[]
  /** Updates behind the first turn's mean. */
  readonly updates: number
}

/** The line of one update; in a live terminal with a bar, within `width` columns. */
export function progressLine(state: ProgressStep, reward: ShownReward, width: number, bar: boolean): string {
  const { step, total, gradient, tokensPerSecond, etaSeconds } = state
  const digits = total === null ? 1 : String(total).length
  const place = `  update ${String(step).padStart(digits)}${total === null ? '' : `/${total}`}`
  const window = reward.updates === 0 ? '' : ` (mean of ${reward.updates})`
  const values = reward.means.map(fixed).join(' -> ')
  const head = `${place}  ${reward.means.length > 1 ? 'rewards' : 'reward'} ${values}${window}`
  const left = `${duration(etaSeconds)} left`
  const speed = `${short(tokensPerSecond)} tok/s`
  if (!bar) return [head, `gradient ${gradient === undefined ? '-' : magnitude(gradient)}`, speed, left].join('  ')
  const forms = [[head, speed, left], [head, left], [head]]
  const room = width - 1 - [head, '', speed, left].join('  ').length
  if (total !== null && room >= BAR.least) {
    forms.unshift([head, barOf(step / total, Math.min(BAR.most, room)), speed, left])
  }
  const lines = forms.map((parts) => parts.join('  '))
  return (lines.find((line) => line.length < width) ?? head).slice(0, width - 1)
}

function barOf(share: number, length: number): string {
  const done = Math.round(Math.min(1, Math.max(0, share)) * length)
  return '#'.repeat(done) + '-'.repeat(length - done)
}

/** Shows how a run goes: one line that is rewritten in a live terminal, a line per logged update elsewhere. */
export class Progress {
  private readonly screen: Screen
  private readonly now: () => number
  /** The last known rewards of each turn, [turn][update]. */
  private rewards: (readonly number[])[] = []
  private latest: { readonly step: ProgressStep; readonly at: number } | undefined
  private timer: NodeJS.Timeout | undefined

  /** @param now milliseconds; only differences count. */
  constructor(screen: Screen, now: () => number = () => performance.now()) {
    this.screen = screen
    this.now = now
  }

  update(step: ProgressStep): void {
    this.rewards = step.rewards.map((reward, turn) =>
      [...(this.rewards[turn] ?? []), ...(Number.isFinite(reward) ? [reward] : [])].slice(-WINDOW),
    )
    this.latest = { step, at: this.now() }
    if (!this.screen.live) {
      if (step.isLogged) this.screen.write(`${progressLine(step, this.reward, this.screen.width, false)}\n`)
      return
    }
    this.draw()
    // Updates of a large model take minutes: meanwhile the time left counts down.
    this.timer ??= setInterval(() => this.draw(), 1000).unref()
  }

  /** Writes lines of text without tearing the progress line. */
  print(text: string): void {
    if (!this.screen.live || !this.latest) {
      this.screen.write(text)
      return
    }
    this.screen.write(`\r\u001b[K${text}`)
    this.draw()
  }

  /** Leaves the last line standing. */
  end(): void {
    clearInterval(this.timer)
    this.timer = undefined
    if (this.screen.live && this.latest) this.screen.write('\n')
    this.latest = undefined
  }

  private get reward(): ShownReward {
    const means = this.rewards.map((values) => (values.length === 0 ? Number.NaN : mean(values)))
    return { means, updates: this.rewards[0]?.length ?? 0 }
  }

  private draw(): void {
    if (!this.latest) return
    const { step, at } = this.latest
    const passed = (this.now() - at) / 1000
    const etaSeconds = step.etaSeconds === null ? null : Math.max(0, step.etaSeconds - passed)
    const line = progressLine({ ...step, etaSeconds }, this.reward, this.screen.width, true)
    this.screen.write(`\r\u001b[K${dim(this.screen, line)}`)
  }
}
