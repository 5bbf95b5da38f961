import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { countPieces, trainBpe } from '../../../../tools/model-tiny/bpe.js'
import { writeInitialModel } from '../../../../tools/model-tiny/model-files.js'

const TEXT = 'the moon talks to a city in the clouds, and the city tells a story about the moon and a dragon. '

/** A folder with an untrained model of a few thousand parameters and a tokenizer: it says nonsense, fast. */
export async function writeTinyModel(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'selfplay-cli-model-'))
  const bpe = trainBpe(countPieces([TEXT]), 280)
  const shape = {
    hiddenSize: 16,
    intermediateSize: 32,
    layers: 1,
    heads: 2,
    kvHeads: 1,
    contextLength: 128,
    ropeTheta: 10_000,
    initStd: 0.1,
  }
  await writeInitialModel(folder, shape, bpe, 1)
  return folder
}
