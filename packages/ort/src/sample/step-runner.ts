import type { BoundRun, Session, Tensor } from '../runtime/index.js'

/** A session, and the weights among the inputs of its graph. */
export interface Compiled {
  readonly session: Session
  readonly weights: Readonly<Record<string, Tensor>>
}

/** What a graph reads and writes of some rows besides weights: views that whoever asked for them disposes. */
export interface RowViews {
  readonly inputs: Readonly<Record<string, Tensor>>
  readonly outputs: Readonly<Record<string, Tensor>>
}

/** Runs a graph on the first rows of tensors, bound to them once for each number of rows. */
export class StepRunner {
  readonly #compiled: Compiled
  readonly #pace: { run(bound: BoundRun): Promise<void> }
  readonly #views: (rows: number) => RowViews
  readonly #bound = new Map<number, BoundRun>()

  constructor(compiled: Compiled, pace: { run(bound: BoundRun): Promise<void> }, views: (rows: number) => RowViews) {
    this.#compiled = compiled
    this.#pace = pace
    this.#views = views
  }

  async run(rows: number): Promise<void> {
    const bound = this.#bound.get(rows) ?? this.#bind(rows)
    this.#bound.set(rows, bound)
    await this.#pace.run(bound)
  }

  /** Forgets the tensors: others are asked for at the next run. */
  unbind(): void {
    for (const bound of this.#bound.values()) bound.dispose()
    this.#bound.clear()
  }

  async dispose(): Promise<void> {
    this.unbind()
    await this.#compiled.session.dispose()
  }

  #bind(rows: number): BoundRun {
    const { session, weights } = this.#compiled
    const { inputs, outputs } = this.#views(rows)
    try {
      return session.bind({ ...inputs, ...weights }, outputs)
    } finally {
      for (const view of Object.values({ ...inputs, ...outputs })) view.dispose() // the bound run keeps what it needs
    }
  }
}
