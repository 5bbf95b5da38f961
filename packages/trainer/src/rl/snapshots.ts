import type { SamplingClient, TrainingClient } from '@selfplay/engine'

/** A frozen copy in use. */
interface Held {
  readonly sampler: SamplingClient
  users: number
}

/** Hands out the newest frozen copy of a policy; older ones are let go of when nobody uses them any more. */
export class Snapshots {
  private readonly client: TrainingClient
  private readonly all = new Set<Held>()
  private newest: Held | undefined

  constructor(client: TrainingClient) {
    this.client = client
  }

  /** Makes a copy of the weights as they are now the newest, unless it is that already. */
  async renew(signal: AbortSignal): Promise<void> {
    if (this.newest?.sampler.policyVersion === this.client.step) return
    const before = this.newest
    this.newest = { sampler: await this.client.snapshot({ signal }), users: 0 }
    this.all.add(this.newest)
    if (before) await this.dropUnused(before)
  }

  /** Lets a call use the newest copy, which stays whatever happens until the call has settled. */
  async use<T>(call: (sampler: SamplingClient) => Promise<T>): Promise<T> {
    const held = this.newest!
    held.users++
    try {
      return await call(held.sampler)
    } finally {
      held.users--
      await this.dropUnused(held)
    }
  }

  async close(): Promise<void> {
    this.newest = undefined
    await Promise.all([...this.all].map((held) => this.dropUnused(held)))
  }

  private async dropUnused(held: Held): Promise<void> {
    if (held.users > 0 || held === this.newest || !this.all.delete(held)) return
    await held.sampler.dispose()
  }
}
