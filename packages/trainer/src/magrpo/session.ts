import { CheckpointError, type TrainingClient } from '@selfplay/engine'
import { LoopSession } from '../run/loop-session.js'
import type { RunTarget } from '../run/resume.js'
import type { Tracker } from '../track/tracker.js'
import type { Policy, Table } from './agents.js'
import type { ResolvedConfig } from './config.js'
import type { Extension } from './extension.js'
import type { Notice, NoticeCode } from './notices.js'
import { freeSettings, initialState, trainerFile, type TrainerState } from './state.js'

export type AgentSession = LoopSession<TrainerState, NoticeCode>

export interface AgentSessionOptions {
  readonly run: string | RunTarget | undefined
  readonly trackers: readonly Tracker[]
  readonly config: ResolvedConfig
  readonly table: Table
  readonly extension: Pick<Extension, 'trainer' | 'settings' | 'parts'> | null
  readonly onNotice: ((notice: Notice) => void) | undefined
  /** Called before a checkpoint's weights are loaded. */
  readonly beforeLoad?: () => Promise<void>
}

/** The name of a policy in a checkpoint: that of its first agent. */
export const partName = ({ seats }: Policy): string => `agent_${seats[0]}`

/** The session of a loop that trains agents, and critics where an extension has some. */
export function agentSession(options: AgentSessionOptions): AgentSession {
  const { run, trackers, config, table, extension, onNotice, beforeLoad } = options
  const critics = extension?.parts ?? []
  const policies = table.policies
    .filter(({ trained }) => trained)
    .map((policy) => ({
      name: partName(policy),
      client: policy.client as TrainingClient,
      title: `agents[${policy.seats[0]}]`,
    }))
  return new LoopSession<TrainerState, NoticeCode>({
    kind: extension?.trainer ?? 'MAGRPO',
    run: typeof run === 'string' ? { directory: run } : (run ?? null),
    parts: [...policies, ...critics.map(({ name, client }) => ({ name, client, title: name }))],
    trackers,
    settings: { ...config, ...extension?.settings },
    free: freeSettings(config),
    file: trainerFile,
    initialState: () => initialState(config, table.policies.length),
    keepCheckpoints: config.keepCheckpoints,
    onNotice,
    describe: () => describeModels(table, critics),
    beforeLoad: async ({ buffers }, directory) => {
      const [expected, got] = [table.policies.length, buffers.length]
      if (got !== expected) {
        throw new CheckpointError(`${directory} is of a run with ${got} policies, this one has ${expected}`, {
          directory,
          expected,
          got,
        })
      }
      await beforeLoad?.()
    },
  })
}

function describeModels({ seats }: Table, critics: Extension['parts']): Record<string, unknown> {
  const agents = seats.map(({ kind, policy, settings }) => ({
    kind,
    policy: policy?.index ?? null,
    model: policy?.client?.info ?? null,
    settings,
  }))
  if (critics.length === 0) return { agents }
  return { agents, critics: critics.map(({ name, client }) => ({ name, model: client.info })) }
}
