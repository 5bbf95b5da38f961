import {
  createEngine,
  createRuntime,
  modelWeights,
  openModelFolder,
  readModelConfig,
  type Packing,
} from '@selfplay/ort'
import type { Side, SideContext } from './case.js'

/** One prompt, answered `rows` times side by side. */
export interface DecodeSettings {
  readonly folder: string
  readonly rows: number
  readonly prompt: readonly number[]
  readonly newTokens: number
  readonly packing: Extract<Packing, string>
}

/** Our sampler on the weights of a folder, mapped where they lie. */
export async function openSampler(
  { folder: path, rows, prompt, newTokens, packing }: DecodeSettings,
  { threads }: SideContext,
) {
  const folder = await openModelFolder(path)
  const config = readModelConfig(folder.config, folder.generationConfig)
  const runtime = await createRuntime({ threads })
  const weights = new Map(modelWeights(config).map(({ name }) => [name, folder.file(name)!] as const))
  const maxLength = prompt.length + newTokens
  const engine = createEngine({ runtime, config, weights, packing, slots: rows, maxLength })
  const sample = (seed: number) =>
    engine.sample({ prompt: Int32Array.from(prompt), numSamples: rows, maxTokens: newTokens, seed })
  const close = async () => {
    await engine.dispose()
    await runtime.dispose()
  }
  return { engine, sample, close }
}

/** Times whole requests: prefill and all steps. */
export async function decodeSide(settings: DecodeSettings, context: SideContext): Promise<Side> {
  const { sample, close } = await openSampler(settings, context)
  let seed = 0
  return {
    async run() {
      const started = performance.now()
      const sequences = await sample(seed++)
      const seconds = (performance.now() - started) / 1000
      return { seconds, values: { tokens: sequences.reduce((sum, { tokens }) => sum + tokens.length, 0) } }
    },
    close,
  }
}
