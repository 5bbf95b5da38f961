import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { modelPath } from '@selfplay/model-tiny'
import { loadTrainingClient } from '@selfplay/ort'
import type { Tokenizer } from '@huggingface/tokenizers'
import { countPieces, trainBpe } from './bpe.js'
import { createBatches, datumsOf } from './data.js'
import { createEncoder, type Encoder } from './encoder.js'
import { runLoop, type StepReport } from './loop.js'
import { loadTokenizer, meanLoss, measureEndings, sampleDocuments } from './measure.js'
import { countParameters, writeInitialModel } from './model-files.js'
import { recipe as bundled, type Recipe } from './recipe.js'
import { updateReadme, type Measurements } from './report.js'
import { documentAt, documentText, KINDS, SPECIAL_TOKENS, unseenPrompts } from './text/documents.js'

// `npx tsx -C @selfplay/source tools/model-tiny/train.ts`: the bundled model, from nothing. Started again, it goes on from its last checkpoint.
const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url))
const { values } = parseArgs({
  options: {
    work: { type: 'string', default: path('../../.cache/model-tiny') },
    output: { type: 'string', default: modelPath },
    readme: { type: 'string', default: path('../../packages/model-tiny/README.md') },
    steps: { type: 'string', default: String(bundled.steps) },
    seed: { type: 'string', default: String(bundled.seed) },
    'save-every': { type: 'string', default: '500' },
    'sample-every': { type: 'string', default: '1000' },
  },
})
const recipe: Recipe = { ...bundled, steps: Number(values.steps), seed: Number(values.seed) }
const HELD_OUT_DOCUMENTS = 400

function makeTokenizer(): { readonly encoder: Encoder; readonly bpe: ReturnType<typeof trainBpe> } {
  const special = new RegExp(SPECIAL_TOKENS.map((token) => token.replaceAll('|', '\\|')).join('|'), 'u')
  const texts = Array.from({ length: recipe.tokenizerDocuments }, (_, i) => documentText(documentAt(recipe.seed, i)))
  const bpe = trainBpe(
    countPieces(texts.flatMap((text) => text.split(special))),
    recipe.vocabSize - SPECIAL_TOKENS.length,
  )
  return { encoder: createEncoder(bpe, SPECIAL_TOKENS), bpe }
}

interface Clock {
  /** Seconds spent training and tokens trained on, in this process. */
  seconds: number
  tokens: number
}

/** A line every 50 steps, with the mean loss since the last one. */
function progressPrinter(clock: Clock): (report: StepReport) => void {
  const started = Date.now()
  let losses: number[] = []
  return ({ step, loss, gradNorm, learningRate, tokens }) => {
    clock.tokens += tokens
    clock.seconds = (Date.now() - started) / 1000
    losses.push(loss)
    if ((step + 1) % 50 !== 0) return
    const mean = losses.reduce((sum, value) => sum + value, 0) / losses.length
    losses = []
    const rate = Math.round(clock.tokens / clock.seconds)
    console.log(
      `step ${step + 1}/${recipe.steps}  loss ${mean.toFixed(3)}  gradient ${gradNorm.toFixed(2)}  learning rate ${learningRate.toExponential(1)}  ${rate} tokens/s  ${clock.seconds.toFixed(0)} s`,
    )
  }
}

async function measure(folder: string, encoder: Encoder, clock: Clock): Promise<Measurements> {
  const client = await loadTrainingClient(folder)
  const tokenizer = await loadTokenizer(folder)
  const sampler = await client.sampler()
  const held = async (kind?: (typeof KINDS)[number]): Promise<number> =>
    meanLoss(client, datumsOf(recipe.seed, HELD_OUT_DOCUMENTS, encoder, 'heldOut', kind))
  const heldOutLoss = {
    all: await held(),
    story: await held('story'),
    chat: await held('chat'),
    feedback: await held('feedback'),
  }
  const shown = [...unseenPrompts('story', 5, 5), ...unseenPrompts('chat', 4, 5), ...unseenPrompts('feedback', 1, 5)]
  const measured: Measurements = {
    parameters: countParameters(recipe.shape, recipe.vocabSize),
    bytes: (await stat(join(folder, 'model.safetensors'))).size,
    steps: recipe.steps,
    trainedTokens: clock.tokens,
    minutes: clock.seconds / 60,
    heldOutLoss,
    endings: await measureEndings(sampler, tokenizer, { prompts: 100, samplesPerPrompt: 4, maxTokens: 128, seed: 17 }),
    samples: await sampleDocuments(sampler, tokenizer, shown, { maxTokens: 128, samplesPerPrompt: 1, seed: 5 }),
  }
  await client.dispose()
  return measured
}

async function train(initial: string, encoder: Encoder, tokenizer: Tokenizer, signal: AbortSignal): Promise<Clock> {
  const client = await loadTrainingClient(initial)
  const clock: Clock = { seconds: 0, tokens: 0 }
  const print = progressPrinter(clock)
  const heldOut = datumsOf(recipe.seed, 100, encoder, 'heldOut')
  const sampleEvery = Number(values['sample-every'])
  const onStep = async (report: StepReport): Promise<void> => {
    print(report)
    if ((report.step + 1) % sampleEvery !== 0) return
    console.log(`held-out loss ${(await meanLoss(client, heldOut)).toFixed(3)}`)
    const documents = KINDS.map((kind) => documentAt(report.step, 0, 'heldOut', kind))
    const options = { maxTokens: 128, samplesPerPrompt: 1, seed: report.step }
    for (const { prompt, text } of await sampleDocuments(await client.sampler(), tokenizer, documents, options)) {
      console.log(`> ${prompt}[${text}]`)
    }
  }
  const batchAt = createBatches(recipe, encoder)
  const saveEvery = Number(values['save-every'])
  await runLoop(client, { recipe, batchAt, workFolder: join(values.work, 'run'), saveEvery, onStep, signal })
  await client.exportModel(values.output, { dtype: 'float16' })
  await client.dispose()
  return clock
}

const stop = new AbortController()
process.once('SIGINT', () => stop.abort(new Error('stopped; start again to go on from the checkpoint')))
const { encoder, bpe } = makeTokenizer()
console.log(`tokenizer: ${encoder.vocabSize} tokens from ${recipe.tokenizerDocuments} documents`)
const initial = join(values.work, 'initial')
await writeInitialModel(initial, recipe.shape, bpe, recipe.seed)
const clock = await train(initial, encoder, await loadTokenizer(initial), stop.signal)
const measured = await measure(values.output, encoder, clock)
await updateReadme(values.readme, measured)
console.log(`held-out loss ${measured.heldOutLoss.all.toFixed(3)}; model in ${values.output}`)
