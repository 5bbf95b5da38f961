import { row, type Row } from './case.js'

/**
 * Seconds of the reference implementation and of TRL, both taken on one machine. CoMLRL is not run here: what it would take is
 * its time there, scaled by TRL's time here over TRL's time there.
 */
export interface ReferenceTimes {
  readonly comlrl: number
  readonly trl: number
}

/** Seconds of CoMLRL on this machine, as far as TRL tells; null where TRL was not run. */
const scaledSeconds = ({ comlrl, trl }: ReferenceTimes, trlHere: number | null): number | null =>
  trlHere === null ? null : (comlrl * trlHere) / trl

/** A line that holds ours against CoMLRL. */
export function comlrlRow(given: {
  readonly name: string
  readonly ours: number
  readonly reference: ReferenceTimes
  /** Seconds of TRL here, in the case of `reference`; null: not run. */
  readonly trl: number | null
  readonly floor?: number
  /** How many times faster than CoMLRL ours is to be. */
  readonly target: number
}): Row {
  const { name, ours, floor = null, target } = given
  const scaled = scaledSeconds(given.reference, given.trl)
  const ratio = scaled === null ? null : scaled / ours
  return row({
    name,
    unit: 's',
    ours,
    peer: scaled ?? 'not run',
    peerName: 'CoMLRL, scaled',
    ratio,
    floor,
    target: `ratio >= ${target} (scaled)`,
    met: ratio === null ? null : ratio >= target,
  })
}
