/** What a return is compared with. */
export type Baseline = 'mean' | 'rloo' | 'max' | 'none' | 'rae'

export interface AdvantageOptions {
  readonly mode: Baseline
  /** Divide by the population standard deviation of the group, at least 1e-6. */
  readonly normalize: boolean
  /** The running baseline, read before this group changes it. Only for `rae`. */
  readonly runningBaseline?: number
}

export interface Advantages {
  /** Null where the return is. */
  readonly values: (number | null)[]
  /** All advantages are 0: nothing can be learnt from this group. */
  readonly constant: boolean
}

const STD_FLOOR = 1e-6
/** Returns whose spread is rounding noise are equal. */
const NOISE = 1e-9

/**
 * Advantages of one group: the returns of one agent's completions at one node.
 *
 * baseline: mean of the group; `rloo` mean of the others, (K R - sum) / (K - 1) away (Ahmadian et al. 2024, equation 9);
 * `max` of the group; `none` 0; `rae` a running mean (Liu et al. 2025, SPIRAL, section 3). Normalisation then divides by the
 * group's standard deviation and does not re-centre, so that each baseline stays what it is. A group without spread has no
 * scale to divide by and is left as it is. Left-out returns (null) count nowhere.
 */
export function groupAdvantages(returns: readonly (number | null)[], options: AdvantageOptions): Advantages {
  const counted = returns.filter((value) => value !== null)
  const K = counted.length
  if (K === 0) return { values: returns.map(() => null), constant: true }
  const max = Math.max(...counted)
  const min = Math.min(...counted)
  const equal = max - min <= NOISE * Math.max(1, Math.abs(max), Math.abs(min))
  const sum = counted.reduce((total, value) => total + value, 0)
  const mean = equal ? max : sum / K
  const variance = equal ? 0 : counted.reduce((total, value) => total + (value - mean) ** 2, 0) / K
  const scale = options.normalize && !equal ? 1 / Math.max(Math.sqrt(variance), STD_FLOOR) : 1
  const centred = (value: number): number => {
    if (options.mode === 'none') return value
    if (options.mode === 'rae') return value - (options.runningBaseline ?? 0)
    if (equal) return 0
    if (options.mode === 'max') return value - max
    return options.mode === 'mean' ? value - mean : (K * value - sum) / (K - 1)
  }
  const values = returns.map((value) => (value === null ? null : centred(value) * scale))
  return { values, constant: values.every((value) => value === null || value === 0) }
}

/** Running mean returns per agent and turn, for `rae`. Plain data, part of a checkpoint. */
export type RunningBaselines = Record<string, number>

/** The key of a running baseline: agents have one per turn, since later turns have less return left to earn. */
export const baselineKey = (agent: number, turn: number): string => `agent_${agent}/turn_${turn}`

/** The baselines after an update: each moves to its groups' mean returns, in order, by 1 - decay. */
export function updateBaselines(
  baselines: RunningBaselines,
  groups: readonly { readonly key: string; readonly returns: readonly (number | null)[] }[],
  { decay, initial }: { readonly decay: number; readonly initial: number },
): RunningBaselines {
  const next = { ...baselines }
  for (const { key, returns } of groups) {
    const counted = returns.filter((value) => value !== null)
    if (counted.length === 0) continue
    const mean = counted.reduce((sum, value) => sum + value, 0) / counted.length
    next[key] = decay * (next[key] ?? initial) + (1 - decay) * mean
  }
  return next
}
