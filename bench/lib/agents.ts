import { loadAgents, type LoadAgentsOptions, type TokenDecoder } from '@selfplay/ort'
import type { TextCodec, TrainableAgent } from '@selfplay/trainer'

/** Agents that start from one folder, each with the tokenizer that the trainer is to use. */
export async function openAgents<T extends TextCodec & TokenDecoder>(
  folder: string,
  count: number,
  options: LoadAgentsOptions<T> & { readonly tokenizer: T },
): Promise<TrainableAgent[]> {
  const clients = await loadAgents(folder, count, options)
  return clients.map((client) => Object.assign(client, { tokenizer: options.tokenizer }))
}
