import type { TrainingClient } from '@selfplay/engine'
import { loadAgents } from '@selfplay/ort'

/** A training client of a model folder, all weights trained. */
export async function loadClient(folder: string): Promise<TrainingClient> {
  const [client] = await loadAgents(folder, 1, { mode: 'separate' })
  if (!client) throw new Error(`expected one client of ${folder}, got none`)
  return client
}
