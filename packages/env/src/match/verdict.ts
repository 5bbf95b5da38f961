/** Why a seat failed. */
export type FaultKind = 'illegal_move' | 'timeout' | 'crash'

/** A seat failed to move. */
export interface Fault {
  readonly kind: FaultKind
  readonly seat: number
  /** The code of the error, or the reason of an illegal move. */
  readonly code: string
  readonly message: string
}

/**
 * What a match ends with for a seat.
 *
 * `scored`: the rules gave it a score. `illegal_move`, `timeout`, `crash`: it failed. `no_contest`: the match ended for another
 * reason (`because`), and nothing was decided for this seat.
 */
export type MatchVerdict =
  | { readonly kind: 'scored' }
  | { readonly kind: FaultKind; readonly code: string; readonly message: string }
  | { readonly kind: 'no_contest'; readonly because: string }
