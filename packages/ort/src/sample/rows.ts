import type { Completion } from './group.js'
import type { PrefilledPrompt, StepModel } from './step-model.js'

/** The rows of a model and the completions that own them. */
export class Rows {
  readonly #model: StepModel
  readonly #owners: (Completion | undefined)[]
  #active = 0

  constructor(model: StepModel) {
    this.#model = model
    this.#owners = Array.from({ length: model.slots }, () => undefined)
  }

  /** How many are in use. */
  get active(): number {
    return this.#active
  }

  owner(slot: number): Completion | undefined {
    return this.#owners[slot]
  }

  /** Gives the first free row to a completion that continues a prompt. */
  occupy(completion: Completion, prefilled: PrefilledPrompt): void {
    const { rows } = this.#model
    const { prompt, temperature, topK, topP } = completion.group.task
    const slot = this.#owners.indexOf(undefined)
    this.#model.reserve(prompt.length)
    this.#model.load(slot, prefilled)
    this.#owners[slot] = completion
    this.#active++
    rows.token[slot] = prompt[prompt.length - 1] ?? 0
    rows.position[slot] = prompt.length - 1
    rows.inverseTemperature[slot] = temperature === 0 ? 1 : 1 / temperature
    rows.topK[slot] = topK
    rows.topP[slot] = topP
  }

  /** A row goes on behind a token that it drew. */
  advance(slot: number, token: number): void {
    const { rows } = this.#model
    rows.token[slot] = token
    rows.position[slot]!++
  }

  free(slot: number): void {
    if (this.#owners[slot]) this.#active--
    this.#owners[slot] = undefined
    this.#reset(slot)
  }

  freeAll(): void {
    this.#owners.forEach((_, slot) => this.free(slot))
  }

  /** Frees the rows of requests that are settled. */
  freeSettled(): void {
    this.#owners.forEach((completion, slot) => {
      if (completion?.group.settled) this.free(slot)
    })
  }

  /** Moves rows in use to the front where that makes steps shorter; how many are at the front at most. */
  closeRanks(): number {
    const used = this.#owners.findLastIndex((completion) => completion !== undefined) + 1
    const span = this.#model.span(this.#active)
    if (this.#model.span(used) === span) return used
    for (let from = span; from < used; from++) if (this.#owners[from]) this.#move(from, this.#owners.indexOf(undefined))
    return span
  }

  /**
   * Plain steps of the next call: several where the model can, as long as the context has room for them and some row has use for them all.
   * What is drawn for a row after its end is dropped, and a completion that waits for it begins that much later.
   */
  get stride(): number {
    const { stride, contextLength, rows } = this.#model
    if (stride === 1) return 1
    let useful = false
    for (const [slot, completion] of this.#owners.entries()) {
      if (!completion) continue
      if (rows.position[slot]! + stride > contextLength) return 1
      if (completion.left >= stride) useful = true
    }
    return useful ? stride : 1
  }

  /** Draws the random numbers of all rows for so many steps, and makes room for their tokens. */
  feed(steps: number): void {
    const { rows } = this.#model
    let longest = 0
    for (let slot = 0; slot < this.#owners.length; slot++) {
      const stream = this.#owners[slot]?.stream
      if (!stream) continue
      const position = rows.position[slot]!
      if (position > longest) longest = position
      for (let n = 0; n < steps; n++) stream.draw(position + 1 + n, rows.uniform, 2 * (slot * steps + n))
    }
    this.#model.reserve(longest + steps)
  }

  #move(from: number, to: number): void {
    const { rows } = this.#model
    this.#model.move(from, to)
    this.#owners[to] = this.#owners[from]
    const inputs = [rows.token, rows.position, rows.inverseTemperature, rows.topK, rows.topP]
    for (const values of inputs) values[to] = values[from]!
    this.#owners[from] = undefined
    this.#reset(from)
  }

  /** An idle row begins each call with token 0 at position 0; nothing reads what it draws. */
  #reset(slot: number): void {
    const { rows } = this.#model
    rows.token[slot] = 0
    rows.position[slot] = 0
    rows.inverseTemperature[slot] = 1
    rows.topK[slot] = 1
    rows.topP[slot] = 1
  }
}
