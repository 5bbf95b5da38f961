import { InvalidInputError } from '@selfplay/engine'
import type { SerialisedModel, TensorSpec, WeightFile } from '../graph/index.js'
import { DTYPES, sizeOf } from './dtypes.js'
import { asHost, type HostTensor } from './host-tensor.js'
import type { ExternalWeight } from './model-bytes.js'
import { checkKeys, suggestion } from './nearest.js'
import type { SessionOptions } from './types.js'

const SESSION_KEYS: readonly (keyof SessionOptions)[] = [
  'threads',
  'packing',
  'weights',
  'optimisation',
  'disabledOptimisers',
  'arena',
  'memoryPattern',
  'spin',
  'concurrent',
]

/** Session options with their defaults. */
export interface ResolvedOptions {
  readonly threads: number
  readonly packing: NonNullable<SessionOptions['packing']>
  readonly optimisation: 'all' | 'none'
  readonly arena: boolean | 'shrink' | 'shared'
  readonly memoryPattern: boolean
  readonly concurrent: boolean
  /** Entries of onnxruntime's session configuration. */
  readonly config: readonly (readonly [key: string, value: string])[]
}

/** @throws InvalidInputError */
export function resolveOptions(options: SessionOptions, threads: number): ResolvedOptions {
  checkKeys('createSession', options, SESSION_KEYS)
  const {
    packing = 'none',
    optimisation = 'all',
    arena = true,
    memoryPattern = true,
    spin = false,
    concurrent = false,
    disabledOptimisers = [],
  } = options
  const oneOf = (key: string, value: unknown, allowed: readonly unknown[]) => {
    if (allowed.includes(value)) return
    throw new InvalidInputError(`createSession: ${key} must be one of ${allowed.join(', ')}, got ${String(value)}`)
  }
  if (typeof packing !== 'object') oneOf('packing', packing, ['none', 'own', 'a container of packedWeights()'])
  oneOf('optimisation', optimisation, ['all', 'none'])
  oneOf('arena', arena, [true, false, 'shrink', 'shared'])
  oneOf('memoryPattern', memoryPattern, [true, false])
  oneOf('spin', spin, [true, false])
  oneOf('concurrent', concurrent, [true, false])
  const config: (readonly [string, string])[] = [
    ['session.disable_prepacking', packing === 'none' ? '1' : '0'],
    ['session.intra_op.allow_spinning', spin ? '1' : '0'],
  ]
  if (disabledOptimisers.length > 0) {
    config.push(['optimization.disable_specified_optimizers', disabledOptimisers.join(';')])
  }
  return {
    threads: checkThreads(options.threads ?? threads),
    packing,
    optimisation,
    arena,
    memoryPattern,
    concurrent,
    config,
  }
}

/** @throws InvalidInputError */
export function checkThreads(threads: number): number {
  if (Number.isSafeInteger(threads) && threads >= 1) return threads
  throw new InvalidInputError(`threads must be an integer >= 1, got ${threads}`, { got: threads })
}

/** Where the bytes of an external weight come from. */
export interface WeightSource extends ExternalWeight {
  readonly spec: TensorSpec
  readonly dims: readonly number[]
  /** Bytes. */
  readonly length: number
  readonly source: { readonly tensor: HostTensor } | { readonly file: WeightFile }
}

/** Finds the source of every external weight in the model. @throws InvalidInputError for one that is missing or does not fit. */
export function resolveWeights(
  model: SerialisedModel,
  external: readonly ExternalWeight[],
  given: SessionOptions['weights'] = {},
): WeightSource[] {
  const specs = new Map(model.weights.map((spec) => [spec.name, spec]))
  for (const name of Object.keys(given)) {
    if (specs.has(name)) continue
    throw new InvalidInputError(`the graph has no external weight "${name}"${suggestion(name, [...specs.keys()])}`, {
      weight: name,
    })
  }
  return external.map((weight) => {
    const spec = specs.get(weight.name)
    if (!spec)
      throw new InvalidInputError(`the graph's bytes name an external weight "${weight.name}" that it does not list`)
    const dims = spec.shape.map((dim) => {
      if (typeof dim === 'number') return dim
      throw new InvalidInputError(`weight "${spec.name}": the sizes of a weight are numbers, got "${dim}"`)
    })
    const length = sizeOf(dims) * DTYPES[spec.dtype].bytes
    const tensor = given[weight.name]
    if (tensor)
      return { ...weight, spec, dims, length, source: { tensor: fitting(spec, dims, asHost(tensor, weight.name)) } }
    if (!spec.file) {
      throw new InvalidInputError(
        `weight "${spec.name}" (${spec.dtype} [${dims.join(', ')}]) has no file: give it in createSession's weights`,
        { weight: spec.name },
      )
    }
    if (spec.file.length !== length) {
      throw new InvalidInputError(
        `weight "${spec.name}": ${spec.dtype} [${dims.join(', ')}] takes ${length} bytes, ${spec.file.path} has ` +
          `${spec.file.length} for it`,
        { weight: spec.name, expected: length, got: spec.file.length },
      )
    }
    return { ...weight, spec, dims, length, source: { file: spec.file } }
  })
}

function fitting(spec: TensorSpec, dims: readonly number[], tensor: HostTensor): HostTensor {
  if (tensor.dtype === spec.dtype && tensor.dims.join() === dims.join()) return tensor
  throw new InvalidInputError(
    `weight "${spec.name}": expected a ${spec.dtype} tensor [${dims.join(', ')}], got a ${tensor.toString()}`,
    {
      weight: spec.name,
      expected: [...dims],
      got: [...tensor.dims],
    },
  )
}

/** @throws InvalidInputError where a file ends before the weight does. */
export function checkExtent(name: string, { path, offset, length }: WeightFile, available: number): void {
  if (offset >= 0 && offset + length <= available) return
  throw new InvalidInputError(
    `weight "${name}": ${path} has ${available} bytes, expected ${length} from byte ${offset} on: is the file whole?`,
    { weight: name, path, expected: offset + length, got: available },
  )
}
