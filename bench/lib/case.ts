/** What one run of one side took and found. */
export interface Sample {
  readonly seconds: number
  /** Other numbers of the run, by name. */
  readonly values?: Readonly<Record<string, number>>
}

/** One side of a comparison, ready to run: models are loaded, nothing is timed yet. */
export interface Side {
  run(): Promise<Sample>
  close?(): Promise<void>
}

/** What a side is opened with besides its settings. */
export interface SideContext {
  /** Threads that it may compute with. */
  readonly threads: number
}

type OpenSide<Settings> = (settings: Settings, context: SideContext) => Promise<Side>

/** A peer in Python: a script in `bench/peers`, run by the interpreter that SELFPLAY_PEER_PYTHON names. */
export interface PythonPeer {
  readonly script: string
}

/** What the machine can do at best, measured in the same call as the cases. */
export interface Floors {
  /** Multiply-adds count two. Best of many 512 x 896 x 4864 products in float32, flop/s. */
  readonly gemm: number
  /** Best of a sum over and an addition of arrays far larger than the caches, bytes/s. */
  readonly bandwidth: number
}

/** Everything that was measured of one side. */
export interface Measured {
  /** In order, without the warm-ups. */
  readonly samples: readonly Sample[]
  /** Largest anonymous memory of the process in bytes, from its start; only for cases that ask for it. */
  readonly memory?: PeakMemory
}

export interface PeakMemory {
  /** Largest resident anonymous memory that was seen, in bytes. Mapped files do not count. */
  readonly anonymous: number
  /** Largest resident memory of any kind as the kernel tracked it (VmHWM), in bytes. */
  readonly resident: number
}

interface Results<Settings> {
  readonly settings: Settings
  readonly floors: Floors
  readonly ours: Measured
  /** Undefined where the peer was not run. */
  readonly peer: Measured | undefined
}

/** A line of the table. */
export interface Row {
  readonly name: string
  /** Of `ours`, `peer` and `floor`, e.g. `ms`, `steps/s`. */
  readonly unit: string
  readonly ours: number
  /** Null: there is none. */
  readonly peer: number | 'not run' | null
  /** What the number of `peer` is, where it is not simply measured, e.g. `CoMLRL (scaled)`. */
  readonly peerName: string | null
  /** How many times better ours is than the peer; null without a peer. */
  readonly ratio: number | null
  /** The best that the measured floors allow, by the formula that the case describes. */
  readonly floor: number | null
  /** In words, e.g. `ratio >= 8`; null: none is set. */
  readonly target: string | null
  /** Null: there is no target, or what it needs was not run. */
  readonly met: boolean | null
}

export type Section = 'speed' | 'memory' | 'checks'

/** Something to measure. */
export interface CaseOf<Settings> {
  /** As it is typed: lower case, dashes. */
  readonly name: string
  readonly title: string
  readonly section: Section
  /** What runs, with its shapes, and where its floor comes from: one paragraph for the report. */
  readonly about: string
  /** Runs of each side. Default 7. */
  readonly runs?: number
  /** Threads of each side. Default: those of the call. */
  readonly threads?: number
  /** Untimed runs of each side before. Default 1. */
  readonly warmups?: number
  /** Whether the memory of the sides is watched. Needs Linux. Default false. */
  readonly watchMemory?: boolean
  /** Bytes of memory that must be available for it to be run. Default: none. With `quick` nothing is asked. */
  readonly needsMemory?: number
  /** Makes what both sides need (model folders), and says what they are to do. `quick`: as small as still makes sense. */
  readonly prepare: (quick: boolean) => Promise<Settings>
  readonly ours: OpenSide<Settings>
  /** What it is compared with: a Python script, or another way of doing it in TypeScript. */
  readonly peer?: PythonPeer | OpenSide<Settings>
  /** Whether the case says nothing without its peer. Default false. */
  readonly needsPeer?: boolean
  readonly rows: (results: Results<Settings>) => readonly Row[]
}

/** A case whose settings only it knows. */
export type Case = CaseOf<unknown>

/** Keeps the type of the settings inside the case. */
export const defineCase = <Settings extends object>(definition: CaseOf<Settings>): Case => definition as unknown as Case

/** A row, with nothing but what is given. */
export const row = (given: Pick<Row, 'name' | 'unit' | 'ours'> & Partial<Row>): Row => ({
  peer: null,
  peerName: null,
  ratio: null,
  floor: null,
  target: null,
  met: null,
  ...given,
})
