import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { modelInfo, modelPath } from '@selfplay/model-tiny'
import { describeMachine, type MachineReport } from '@selfplay/ort'
import { gibibytes, short } from '../terminal/numbers.js'
import { labelled, type Screen } from '../terminal/screen.js'
import { version } from '../version.js'

/** What `selfplay doctor` finds. */
export interface DoctorReport {
  readonly selfplay: string
  readonly machine: MachineReport
  /** The oldest version of Node that is supported, and whether this one is new enough. */
  readonly node: { readonly needed: string; readonly ok: boolean }
  readonly bundledModel: { readonly path: string; readonly present: boolean }
  /** Whether models can be fetched by hub name. */
  readonly hub: boolean
  /** Whether a key for W&B is in the environment. */
  readonly wandbKey: boolean
  /** Whether training works here. */
  readonly ready: boolean
}

const NEEDED_NODE = [20, 19, 0] as const

function isNewEnough(nodeVersion: string): boolean {
  const parts = nodeVersion.replace(/^v/, '').split('.').map(Number)
  for (const [index, needed] of NEEDED_NODE.entries()) {
    const part = parts[index] ?? 0
    if (part !== needed) return part > needed
  }
  return true
}

const succeeds = (promise: Promise<unknown>): Promise<boolean> =>
  promise.then(
    () => true,
    () => false,
  )

/** Looks at this machine. Never throws. */
export async function examine(env: Readonly<Record<string, string | undefined>>): Promise<DoctorReport> {
  const hub: string = '@huggingface/hub' // an optional package: a plain import would demand it
  const machine = await describeMachine()
  const node = { needed: NEEDED_NODE.join('.'), ok: isNewEnough(machine.node) }
  return {
    selfplay: version,
    machine,
    node,
    bundledModel: { path: modelPath, present: await succeeds(access(join(modelPath, 'model.safetensors'))) },
    hub: await succeeds(import(hub)),
    wandbKey: Boolean(env['WANDB_API_KEY']),
    ready: node.ok && !('error' in machine.runtime),
  }
}

/** The report in words. */
export function describeReport(report: DoctorReport, screen: Screen): string {
  const { machine, node, bundledModel } = report
  const { cpu, cores, memory, runtime, providers } = machine
  const failed = 'error' in runtime
  const kinds = { native: 'through its C API', binding: 'through its Node binding (slower)' } as const
  const lines: [string, string][] = [
    ['node', `${machine.node}, ${node.ok ? 'ok' : `too old: at least ${node.needed} is needed`}`],
    ['system', `${machine.platform}, ${machine.system}`],
    ['cpu', `${cpu}, ${cores} ${cores === 1 ? 'core' : 'cores'} to use`],
    ['memory', `${gibibytes(memory.free)} free of ${gibibytes(memory.total)}`],
    [
      'runtime',
      failed
        ? `cannot be loaded: ${runtime.error}`
        : `onnxruntime ${runtime.version} ${kinds[runtime.kind]}, ${runtime.threads} threads` +
          (runtime.fallbackReason === undefined ? '' : `\nthe C API cannot be used: ${runtime.fallbackReason}`),
    ],
    ['providers', `onnxruntime knows ${providers.join(', ') || 'none'}; this version uses the CPU alone`],
    [
      'bundled',
      bundledModel.present
        ? `bundled:${modelInfo.name}, ${short(modelInfo.parameters)} parameters, context of ${modelInfo.contextLength} tokens`
        : `the weights of bundled:${modelInfo.name} are missing in ${bundledModel.path}: install @selfplay/model-tiny again`,
    ],
    [
      'hub',
      report.hub
        ? 'models can be given by hub name'
        : 'models are local folders; `npm install @huggingface/hub` adds hub names',
    ],
    ['W&B', report.wandbKey ? 'WANDB_API_KEY is set: --wandb works' : 'WANDB_API_KEY is not set: --wandb needs it'],
    ['verdict', report.ready ? 'this machine can train' : 'this machine cannot train yet: see above'],
  ]
  return `selfplay ${report.selfplay}\n${lines.map(([label, text]) => labelled(screen, label, text)).join('')}`
}
