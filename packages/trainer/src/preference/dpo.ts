/** The loss of one agent over P pairs, and its derivative by the agent's own log-ratio of each pair. */
export interface DpoLoss {
  readonly loss: number
  /** [pair]. */
  readonly slopes: readonly number[]
}

/**
 * Multi-agent direct preference optimisation: -log sigmoid(beta * (own + others)), mean over pairs. `own` is the agent's
 * log-ratio, (log p(winner) - log ref(winner)) - (log p(loser) - log ref(loser)) (Rafailov et al. 2023, equation 7); `others` is
 * the sum of the other agents' log-ratios, held fixed: an agent is asked for no more than is still missing. The reference
 * implementation has no reference model, so that nothing there keeps the winners' own probability from falling.
 */
export function dpoLoss(own: readonly number[], others: readonly number[], beta: number): DpoLoss {
  const P = own.length
  let loss = 0
  const slopes = own.map((ratio, p) => {
    const x = beta * (ratio + others[p]!)
    loss += softplus(-x) / P
    return (-beta * sigmoid(-x)) / P
  })
  return { loss, slopes }
}

/** log(1 + e^x), without overflow. */
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))
const sigmoid = (x: number): number => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)))
