import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExportOptions } from '@selfplay/engine'
import { unwritable, writeFileAtomic } from '../run/files.js'
import type { Table } from './agents.js'
import type { ExtraPart } from './extension.js'

/** Version of the `manifest.json` that {@link saveAgents} writes. */
export const MODEL_MANIFEST_FORMAT = 1

/**
 * Writes each agent's model to `agent_0/`, `agent_1/`, ... with its tokenizer files, and `manifest.json` last: a folder without
 * it is not complete. Agents that share weights get a folder each. Scripted agents, and frozen ones without a training
 * client, stand in the manifest only.
 *
 * @param extra critics, each to a folder of its name.
 */
export async function saveAgents(
  table: Table,
  directory: string,
  options: ExportOptions & { readonly signal?: AbortSignal } = {},
  extra: readonly ExtraPart[] = [],
): Promise<void> {
  try {
    await mkdir(directory, { recursive: true })
    await rm(join(directory, 'manifest.json'), { force: true })
  } catch (cause) {
    throw unwritable(directory, cause)
  }
  const agents = []
  for (const { index, kind, policy } of table.seats) {
    const client = policy?.client ?? null
    const folder = `agent_${index}`
    if (client) await client.exportModel(join(directory, folder), options)
    agents.push({
      agent: index,
      kind,
      path: client ? folder : null,
      source: client?.info.source ?? null,
      architecture: client?.info.architecture ?? null,
      step: client?.step ?? null,
      /** Agents with the same number share weights. */
      policy: policy?.index ?? null,
    })
  }
  const critics = []
  for (const { name, client } of extra) {
    await client.exportModel(join(directory, name), options)
    const { source, architecture } = client.info
    critics.push({ path: name, source, architecture, step: client.step })
  }
  const manifest = { formatVersion: MODEL_MANIFEST_FORMAT, agents, ...(critics.length > 0 && { critics }) }
  await writeFileAtomic(join(directory, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}
