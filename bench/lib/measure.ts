import { freemem } from 'node:os'
import { alternate } from './alternate.js'
import type { Case, Floors, Measured, Row, Sample } from './case.js'
import { canWatchMemory, watchMemory, type MemoryWatch } from './memory-watch.js'
import { isPython, peerPython, startOwn, startPython, type SideProcess } from './side-process.js'

export interface MeasureOptions {
  /** For cases that do not set their own number. */
  readonly threads: number
  /** Overrides the case's own number. */
  readonly runs: number | undefined
  readonly quick: boolean
  readonly onSample?: (side: 'ours' | 'peer', run: number, sample: Sample) => void
}

/** What a case came to. */
export interface Outcome {
  readonly rows: readonly Row[]
  readonly runs: number
  /** Of each side. */
  readonly threads: number
  readonly ours: Measured
  readonly peer: Measured | undefined
  /** Of what the peer runs on. */
  readonly versions: Readonly<Record<string, string>>
}

/** Why a case cannot be measured here. */
export class NotRunError extends Error {}

const NO_PEER = 'its peer is Python: set SELFPLAY_PEER_PYTHON to the interpreter of an environment that has it'

/**
 * Measures one case: starts both sides, runs them in turn, and makes the rows.
 *
 * @param floors of this call; undefined while the floors themselves are measured.
 * @throws NotRunError when the machine lacks what the case needs; Error with a side's own words when it failed.
 */
export async function measure(benchCase: Case, floors: Floors | undefined, options: MeasureOptions): Promise<Outcome> {
  const { watchMemory: watches = false, needsPeer = false, warmups = 1, threads = options.threads } = benchCase
  const python = isPython(benchCase.peer) ? peerPython() : undefined
  if (needsPeer && isPython(benchCase.peer) && python === undefined) throw new NotRunError(NO_PEER)
  if (!options.quick) checkMemory(benchCase)
  if (watches && !canWatchMemory()) throw new NotRunError('memory is watched through /proc, which this system lacks')
  const settings = await benchCase.prepare(options.quick)
  const sides: SideProcess[] = []
  const watch: Partial<Record<'ours' | 'peer', MemoryWatch>> = {}
  const open = async (which: 'ours' | 'peer', side: SideProcess): Promise<SideProcess> => {
    sides.push(side)
    if (watches && side.pid !== undefined) watch[which] = watchMemory(side.pid)
    await side.open(settings, threads)
    return side
  }
  try {
    const ours = await open('ours', startOwn(benchCase.name, 'ours'))
    const peerSide = startPeer(benchCase, python, threads)
    const peer = peerSide && (await open('peer', peerSide))
    const runs = options.quick ? 1 : (options.runs ?? benchCase.runs ?? 7)
    const { onSample } = options
    const samples = await alternate(ours, peer, { runs, warmups, ...(onSample && { onSample }) })
    const results = {
      ours: withMemory(samples.ours, watch.ours),
      peer: peer && withMemory(samples.peer, watch.peer),
    }
    const rows = benchCase.rows({ settings, floors: floors ?? { gemm: Number.NaN, bandwidth: Number.NaN }, ...results })
    return { rows, runs, threads, ...results, versions: peer?.versions ?? {} }
  } finally {
    for (const one of Object.values(watch)) one.stop()
    await Promise.all(sides.map((side) => side.close()))
  }
}

/** @internal @throws NotRunError rather than let the system end what does not fit. */
export function checkMemory({ needsMemory = 0 }: Pick<Case, 'needsMemory'>, available = freemem()): void {
  if (available >= needsMemory) return
  const [need, have] = [needsMemory, available].map((bytes) => (bytes / 2 ** 30).toFixed(1))
  throw new NotRunError(`it needs ${need} GiB of memory, and ${have} GiB are available`)
}

function startPeer({ name, peer }: Case, python: string | undefined, threads: number): SideProcess | undefined {
  if (peer === undefined) return undefined
  if (!isPython(peer)) return startOwn(name, 'peer')
  return python === undefined ? undefined : startPython(name, peer, python, threads)
}

function withMemory(samples: readonly Sample[], watch: MemoryWatch | undefined): Measured {
  const memory = watch?.stop()
  return { samples, ...(memory && { memory }) }
}
