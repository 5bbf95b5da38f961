import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CheckpointError, type SamplingClient, type TrainingClient } from '@selfplay/engine'
import { exists } from './files.js'
import type { RunFolder } from './run-folder.js'

/** A policy that a penalty holds near what it was when the run began. */
export interface ReferencePart {
  readonly client: TrainingClient
  /** Where its weights are kept in the run folder. */
  readonly path: string
}

/**
 * Frozen copies of policies as they were when a run began. They are kept with the run: resuming finds neither what the clients
 * hold by then nor the model that they were loaded from.
 */
export class References {
  private readonly parts: readonly ReferencePart[]
  private readonly names: { readonly penalty: string; readonly option: string }
  private readonly held = new Map<TrainingClient, SamplingClient>()

  /** @param names of the setting that needs them and of the option that replaces them, for messages */
  constructor(parts: readonly ReferencePart[], names: { readonly penalty: string; readonly option: string }) {
    this.parts = parts
    this.names = names
  }

  /** The copy of a client's policy; null when none is held. */
  of(client: TrainingClient): SamplingClient | null {
    return this.held.get(client) ?? null
  }

  /** Takes the policies as they are now, at the start of a run, and keeps them in its folder if it has one. */
  async keep(folder: RunFolder | null): Promise<void> {
    for (const { client, path } of this.parts) {
      await this.hold(client)
      if (!folder) continue
      const directory = join(folder.directory, path)
      await rm(directory, { recursive: true, force: true })
      await client.saveState(directory)
    }
  }

  /**
   * Takes those that a run has kept. The clients hold them afterwards: a checkpoint is to be loaded next.
   *
   * @throws CheckpointError when one is missing: nothing is loaded then.
   */
  async restore(folder: RunFolder): Promise<void> {
    const { penalty, option } = this.names
    const kept = this.parts.map(({ client, path }) => ({ client, directory: join(folder.directory, path) }))
    for (const { directory } of kept) {
      if (await exists(directory)) continue
      throw new CheckpointError(
        `${directory}, the policy that ${penalty} stays near, is missing (earlier versions may not have kept it): restore it, ` +
          `or pass ${option}: the policy as it was when the run began, e.g. a snapshot of the model that it was begun with`,
        { directory },
      )
    }
    for (const { client, directory } of kept) {
      await client.loadState(directory)
      await this.hold(client)
    }
  }

  private async hold(client: TrainingClient): Promise<void> {
    await this.held.get(client)?.dispose()
    this.held.set(client, await client.snapshot())
  }

  async dispose(): Promise<void> {
    const copies = [...this.held.values()]
    this.held.clear()
    await Promise.all(copies.map((copy) => copy.dispose()))
  }
}
