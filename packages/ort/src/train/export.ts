import { InvalidInputError, type CallOptions, type ExportOptions } from '@selfplay/engine'
import { exportAdapterFolder, exportModelFolder, type TensorFile } from '../checkpoint/index.js'
import { graph } from '../graph/index.js'
import { linearLayers, modelWeights } from '../models/weights.js'
import type { Session, Tensor } from '../runtime/types.js'
import { loraNames, type LoraOptions } from '../models/lora.js'
import type { ModelCore } from './model-core.js'
import type { Parameter } from './parameters.js'

/** `beside`: what goes into the folder besides the policy. */
type Options = CallOptions & Pick<ExportOptions, 'dtype'> & { readonly beside?: readonly TensorFile[] }

/** A model folder of the policy; adapters are added into the weights that they adapt. */
export async function exportWhole(
  directory: string,
  core: ModelCore,
  parameters: readonly Parameter[],
  options: Options,
): Promise<void> {
  const { config, folder } = core
  const trained = new Map(parameters.map(({ name, weight }) => [name, weight]))
  const merge = core.training === 'full' ? undefined : await Merge.create(core, core.training, trained)
  const read = async (name: string) => (await trained.get(name)?.read()) ?? merge!.read(name)
  const { dtype, signal, beside = [] } = options
  try {
    await exportModelFolder(
      directory,
      {
        config: folder.configText,
        generationConfig: folder.generationConfigText,
        tokenizerFiles: folder.tokenizerFiles,
        parameters: modelWeights(config),
        read,
        beside,
      },
      { ...(dtype && { dtype }), ...(signal && { signal }) },
    )
  } finally {
    await merge?.dispose()
  }
}

/** A PEFT folder of an adapter. @throws InvalidInputError when the whole model is trained. */
export async function exportAdapter(
  directory: string,
  core: ModelCore,
  parameters: readonly Parameter[],
  baseModel: string,
  { signal, beside = [] }: Options,
): Promise<void> {
  const { training, config } = core
  if (training === 'full') {
    throw new InvalidInputError(
      `exportModel: format "adapter" needs a client with an adapter; this one trains all weights`,
    )
  }
  const matrices = new Map(parameters.map(({ name, weight }) => [name, weight]))
  const adapted = linearLayers(config).filter(({ name }) => matrices.has(loraNames(name).a))
  await exportAdapterFolder(
    directory,
    {
      rank: training.rank,
      alpha: training.alpha,
      targetModules: training.targets,
      baseModel,
      modules: adapted,
      read: (module, side) => matrices.get(loraNames(module)[side === 'A' ? 'a' : 'b'])!.read(),
      tokenizerFiles: core.folder.tokenizerFiles,
      beside,
    },
    signal ? { signal } : {},
  )
}

/** W + alpha / rank * B A, one weight at a time. */
class Merge {
  readonly #core: ModelCore
  readonly #matrices: ReadonlyMap<string, Tensor<'float32'>>
  readonly #session: Session

  private constructor(core: ModelCore, matrices: ReadonlyMap<string, Tensor<'float32'>>, session: Session) {
    this.#core = core
    this.#matrices = matrices
    this.#session = session
  }

  static async create(
    core: ModelCore,
    { rank, alpha }: LoraOptions,
    matrices: ReadonlyMap<string, Tensor<'float32'>>,
  ): Promise<Merge> {
    const g = graph()
    const update = g.matmul(g.input('b', 'float32', ['out', rank]), g.input('a', 'float32', [rank, 'in']))
    const merged = g.add(g.input('w', 'float32', ['out', 'in']), g.mul(update, alpha / rank))
    return new Merge(core, matrices, await core.runtime.createSession(g.outputs({ merged })))
  }

  async read(name: string): Promise<Float32Array> {
    const { runtime, folder } = this.#core
    const weight = await folder.read(name)
    const names = loraNames(name.replace(/\.weight$/, ''))
    const [a, b] = [this.#matrices.get(names.a), this.#matrices.get(names.b)]
    if (!a || !b) return weight
    const w = runtime.tensor('float32', weight, [b.dims[0]!, a.dims[1]!])
    const { merged } = await this.#session.run({ w, a, b }, { merged: null })
    const values = (await merged!.read()) as Float32Array
    w.dispose()
    merged!.dispose()
    return values
  }

  dispose(): Promise<void> {
    return this.#session.dispose()
  }
}
