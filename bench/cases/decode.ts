import { defineCase, row, type Case } from '../lib/case.js'
import { decodeSide, type DecodeSettings } from '../lib/decoding.js'
import { decodeFloor } from '../lib/flops.js'
import {
  HALF_BILLION,
  HIDDEN_64,
  modelConfig,
  modelFolder,
  randomIds,
  TWO_LAYERS,
  type ModelSpec,
} from '../lib/models.js'
import { medianSeconds, medianValue } from '../lib/statistics.js'

interface Options {
  readonly name: string
  readonly title: string
  readonly about: string
  readonly spec: ModelSpec
  readonly quickSpec: ModelSpec
  readonly newTokens: number
  readonly packing: DecodeSettings['packing']
  /** Least ratio to Hugging Face's generate. */
  readonly target: number
}

const ROWS = 16
const PROMPT = 8

interface Settings extends DecodeSettings {
  readonly quick: boolean
}

function decodeCase({ name, title, about, spec, quickSpec, newTokens, packing, target }: Options): Case {
  return defineCase<Settings>({
    name,
    title,
    section: 'speed',
    about:
      `${about} One prompt of ${PROMPT} tokens, ${ROWS} rows of ${newTokens} new tokens at temperature 1 without a filter, against generate of ` +
      'Hugging Face transformers; both times are those of whole requests, by the number of steps. Floor: the larger of the operations of a ' +
      'step over the rate of `gemm` and the bytes of weights and cache over the bandwidth.',
    prepare: async (quick) => {
      const model = quick ? quickSpec : spec
      const prompt = [...randomIds(PROMPT, model.vocabSize, 1)]
      return { folder: await modelFolder(model), rows: ROWS, prompt, newTokens: quick ? 4 : newTokens, packing, quick }
    },
    ours: decodeSide,
    peer: { script: 'decode.py' },
    rows({ settings, floors, ours, peer }) {
      const steps = settings.newTokens
      for (const side of [ours, ...(peer ? [peer] : [])]) {
        const tokens = medianValue(side, 'tokens')
        if (tokens !== ROWS * steps) throw new Error(`expected ${ROWS * steps} tokens of each side, got ${tokens}`)
      }
      const perStep = (1000 * medianSeconds(ours)) / steps
      const other = peer ? (1000 * medianSeconds(peer)) / steps : null
      const ratio = other === null ? null : other / perStep
      const config = modelConfig(settings.quick ? quickSpec : spec)
      return [
        row({
          name: `${ROWS} rows, a step`,
          unit: 'ms',
          ours: perStep,
          peer: other ?? 'not run',
          ratio,
          floor: 1000 * decodeFloor(config, ROWS, PROMPT + steps / 2, floors),
          target: `ratio >= ${target}`,
          met: ratio === null ? null : ratio >= target,
        }),
      ]
    },
  })
}

export const decodeTiny = decodeCase({
  name: 'decode-tiny',
  title: 'sampling, hidden 64, 2 layers',
  about: 'A model of 0.36 M parameters (vocabulary 4096), where only overhead counts.',
  spec: HIDDEN_64,
  quickSpec: HIDDEN_64,
  newTokens: 64,
  packing: 'auto',
  target: 8,
})

export const decodeHalfBillion = decodeCase({
  name: 'decode-half-billion',
  title: 'sampling at the shape of Qwen2.5-0.5B',
  about: 'Random weights in the shape of Qwen2.5-0.5B (494 M parameters, vocabulary 151,936), float32, packed.',
  spec: HALF_BILLION,
  quickSpec: TWO_LAYERS,
  newTokens: 24,
  packing: 'packed',
  target: 2,
})
