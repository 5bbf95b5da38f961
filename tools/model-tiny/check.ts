import { parseArgs } from 'node:util'
import { modelPath } from '@selfplay/model-tiny'
import { loadTrainingClient } from '@selfplay/ort'
import { loadTokenizer, measureEndings, QUANTILES } from './measure.js'

// `npx tsx -C @selfplay/source tools/model-tiny/check.ts`: do completions of unseen prompts end by themselves?
const { values } = parseArgs({
  options: {
    model: { type: 'string', default: modelPath },
    prompts: { type: 'string', default: '100' },
    'samples-per-prompt': { type: 'string', default: '4' },
    'max-tokens': { type: 'string', default: '128' },
    seed: { type: 'string', default: '17' },
    'at-least': { type: 'string', default: '0.95' },
  },
})

const client = await loadTrainingClient(values.model)
const reports = await measureEndings(await client.sampler(), await loadTokenizer(values.model), {
  prompts: Number(values.prompts),
  samplesPerPrompt: Number(values['samples-per-prompt']),
  maxTokens: Number(values['max-tokens']),
  seed: Number(values.seed),
})
await client.dispose()
const least = Number(values['at-least'])
for (const { kind, samples, endedShare, quantiles } of reports) {
  const lengths = quantiles.map((tokens, i) => `${Math.round(100 * (QUANTILES[i] ?? 0))}% ${tokens}`).join(', ')
  const verdict = endedShare >= least ? 'ok' : `below ${least}`
  console.log(
    `${kind.padEnd(9)}${(100 * endedShare).toFixed(1)} % of ${samples} ended (${verdict}); tokens: ${lengths}`,
  )
}
process.exitCode = reports.every(({ endedShare }) => endedShare >= least) ? 0 : 1
