import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { modelWeights, openModelFolder, readModelConfig, type SerialisedModel, type WeightFile } from '@selfplay/ort'
import {
  filteredGraph,
  greedyGraph,
  hiddenGraph,
  prefillGraph,
  scoreGraph,
  stepGraph,
} from '../../packages/ort/src/sample/graphs.js'
import { updateGraphs } from '../../packages/ort/src/train/adamw.js'
import { LORA_DEFAULTS } from '../../packages/ort/src/models/lora.js'
import type { GraphLoss } from '../../packages/ort/src/train/losses.js'
import { trainingGraph } from '../../packages/ort/src/train/training-graph.js'
import { defineCase, row, type Side } from '../lib/case.js'
import { medianValue } from '../lib/statistics.js'

interface Settings {
  /** Where the models are written, and checked. */
  readonly folder: string
  readonly families: readonly string[]
}

const LOSSES: readonly GraphLoss['name'][] = ['cross_entropy', 'importance_sampling', 'ppo', 'cispo', 'dro', 'gspo']
const WEIGHTS = 'model.safetensors'

/** Every graph that training and sampling one model makes, by name. Weights stand in the file beside the model. */
async function graphsOf(source: string): Promise<Map<string, SerialisedModel>> {
  const folder = await openModelFolder(source)
  const config = readModelConfig(folder.config, folder.generationConfig)
  const file = (name: string): WeightFile => ({ ...folder.file(name)!, path: WEIGHTS })
  const weights = { base: new Map(modelWeights(config).map(({ name }) => [name, file(name)] as const)) }
  const graphs = new Map<string, SerialisedModel>()
  for (const name of LOSSES) {
    for (const [kind, training] of [['full', 'full'] as const, ['lora', LORA_DEFAULTS] as const]) {
      for (const headChunks of [1, 2]) {
        const options = { loss: { name }, gradients: true, headChunks }
        graphs.set(`${name}-${kind}-${headChunks}`, trainingGraph({ config, training, file }, options))
      }
    }
  }
  graphs.set('step', stepGraph(config, weights))
  graphs.set('prefill', prefillGraph(config, weights))
  graphs.set('hidden', hiddenGraph(config, weights))
  graphs.set('score', scoreGraph(config, weights))
  graphs.set('greedy', greedyGraph(config.vocabSize, 4))
  graphs.set('filtered', filteredGraph(config.vocabSize, 4, 16))
  for (const [name, outputs] of Object.entries(updateGraphs())) {
    graphs.set(name, Object.values(outputs)[0]!.graph.outputs(outputs))
  }
  return graphs
}

async function ours({ folder, families }: Settings): Promise<Side> {
  return {
    async run() {
      const started = performance.now()
      let models = 0
      for (const family of families) {
        const source = fileURLToPath(new URL(`../../fixtures/models/${family}`, import.meta.url))
        const target = join(folder, family)
        await mkdir(target, { recursive: true })
        await copyFile(join(source, WEIGHTS), join(target, WEIGHTS))
        for (const [name, { bytes }] of await graphsOf(source)) {
          await writeFile(join(target, `${name}.onnx`), bytes)
          models++
        }
      }
      return { seconds: (performance.now() - started) / 1000, values: { models } }
    },
    close: () => rm(folder, { recursive: true, force: true }),
  }
}

export const onnxWriter = defineCase<Settings>({
  name: 'onnx-writer',
  title: 'our ONNX files, read by others',
  section: 'checks',
  about:
    'Every graph that training (all losses, full and LoRA, head whole and in chunks), the optimiser and sampling make of the four small models in ' +
    '`fixtures/models`, written by our own protobuf writer, then checked by Python: `onnx.load`, `onnx.checker.check_model`, and a session of ' +
    "Python's onnxruntime. The checker knows ONNX's own operators only: nodes that stock onnxruntime has beyond them are left to the session.",
  runs: 1,
  warmups: 0,
  needsPeer: true,
  prepare: async (quick) => ({
    folder: await mkdtemp(join(tmpdir(), 'selfplay-bench-onnx-')),
    families: quick ? ['qwen2'] : ['qwen2', 'qwen3', 'llama3', 'mistral'],
  }),
  ours,
  peer: { script: 'onnx_check.py' },
  rows({ ours: own, peer }) {
    const written = medianValue(own, 'models')
    const passed = medianValue(peer!, 'passed')
    return [
      row({
        name: 'models written, and models that pass',
        unit: 'models',
        ours: written,
        peer: passed,
        target: 'all pass',
        met: passed === written,
      }),
    ]
  },
})
