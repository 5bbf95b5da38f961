import type { PrefilledPrompt, StepModel } from '../step-model.js'
import type { DrawKind } from '../tail.js'

export const VOCAB = 50
/** Steps of the model's strides, where a test has it make some. */
export const STRIDE = 4

/** A model whose next token is a hash of the row's history and its uniform number: any mix-up of rows shows. */
export class HashModel implements StepModel {
  readonly vocabSize = VOCAB
  readonly contextLength = 40
  readonly slots: number
  readonly rows: StepModel['rows']
  readonly history: number[][]
  prepared: number[] = []
  released = 0
  moves = 0
  rested = 0
  stride = 1
  strides: number[] = []
  spans: number[] = []
  live = 0
  beforeStep: (step: number) => void | Promise<void> = () => {}
  #steps = 0

  constructor(slots: number) {
    this.slots = slots
    this.history = Array.from({ length: slots }, () => [])
    this.rows = {
      token: new Int32Array(slots),
      position: new Int32Array(slots),
      uniform: new Float32Array(2 * slots * STRIDE),
      inverseTemperature: new Float32Array(slots),
      topK: new Int32Array(slots),
      topP: new Float32Array(slots),
      drawn: new Int32Array(slots * STRIDE),
      probability: new Float32Array(slots * STRIDE),
      keptMass: new Float32Array(slots),
    }
  }

  async prepare(version: number) {
    this.prepared.push(version)
  }
  async prefill(prompt: Int32Array): Promise<PrefilledPrompt & { ids: number[] }> {
    this.live++
    return { ids: Array.from(prompt.slice(0, -1)), dispose: () => void this.live-- }
  }
  reserve() {}
  move(from: number, to: number) {
    this.history[to] = this.history[from]!
    this.history[from] = []
    this.moves++
  }
  span(used: number) {
    return used <= this.slots / 2 ? Math.ceil(this.slots / 2) : this.slots
  }
  load(slot: number, prompt: PrefilledPrompt) {
    this.history[slot] = [...(prompt as unknown as { ids: number[] }).ids]
  }
  async step(kind: DrawKind, { used, steps }: { used: number; steps: number }) {
    this.spans.push(this.span(used))
    await this.beforeStep(this.#steps++)
    const { rows } = this
    this.strides.push(steps)
    rows.drawn.fill(-1)
    for (let slot = 0; slot < this.span(used); slot++) {
      const row = this.history[slot]!
      for (let n = 0; n < steps; n++) {
        const at = slot * steps + n
        const position = rows.position[slot]! + n
        if (position >= this.contextLength) throw new Error(`no room for position ${position}`)
        row[position] = n === 0 ? rows.token[slot]! : rows.drawn[at - 1]!
        row.length = position + 1
        const u = kind === 'greedy' ? 0 : rows.uniform[2 * at]! + rows.uniform[2 * at + 1]!
        let hash = Math.floor(u * 2 ** 20)
        for (const id of row) hash = (Math.imul(hash ^ id, 0x9e3779b1) ^ (hash >>> 13)) >>> 0
        rows.drawn[at] = hash % VOCAB
        rows.probability[at] = 0.5
      }
      rows.keptMass[slot] = kind === 'filtered' ? rows.topP[slot]! : NaN
    }
  }
  rest() {
    this.rested++
  }
  async score(tokens: Int32Array, inverseTemperature: number) {
    return new Float32Array(tokens.length - 1).fill(-inverseTemperature)
  }
  async release() {
    this.released++
  }
  async dispose() {}
}
