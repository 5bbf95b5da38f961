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

/** Runs a graph on the first rows of tensors, bound to them for as long as their number stays the same. */
export class StepRunner {
  readonly #compiled: Compiled
  readonly #pace: { run(bound: BoundRun): Promise<void> }
  readonly #views: (rows: number) => RowViews
  #bound: { readonly rows: number; readonly run: BoundRun } | undefined

  constructor(compiled: Compiled, pace: { run(bound: BoundRun): Promise<void> }, views: (rows: number) => RowViews) {
    this.#compiled = compiled
    this.#pace = pace
    this.#views = views
  }

  async run(rows: number): Promise<void> {
    if (this.#bound?.rows !== rows) this.unbind()
    this.#bound ??= { rows, run: this.#bind(rows) }
    await this.#pace.run(this.#bound.run)
  }

  /** Forgets the tensors: others are asked for at the next run. */
  unbind(): void {
    this.#bound?.run.dispose()
    this.#bound = undefined
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
