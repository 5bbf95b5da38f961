import { readFile } from 'node:fs/promises'
import { QUANTILES, type KindReport, type Sample } from './measure.js'
import { writeFileAtomic } from '@selfplay/ort'
import type { Kind } from './text/documents.js'

const BEGIN = '<!-- measured: begin -->'
const END = '<!-- measured: end -->'

/** What a training run measured on the exported model. */
export interface Measurements {
  readonly parameters: number
  readonly bytes: number
  readonly steps: number
  readonly trainedTokens: number
  readonly minutes: number
  /** Nats per token, by kind and over all. */
  readonly heldOutLoss: Readonly<Record<Kind | 'all', number>>
  readonly endings: readonly KindReport[]
  readonly samples: readonly Sample[]
}

const KIND_TITLES: Readonly<Record<Kind, string>> = {
  story: 'prompt and answer',
  chat: 'ChatML conversation',
  feedback: 'prompt with feedback',
}

const quoted = (text: string): string =>
  text
    .split('\n')
    .map((line) => `    ${line}`.trimEnd())
    .join('\n')

function lengthTable({ endings, heldOutLoss }: Measurements): string {
  const head = ['kind', 'held-out loss', 'ended', ...QUANTILES.map((share) => `${Math.round(100 * share)} %`)]
  const rows = endings.map(({ kind, endedShare, quantiles }) => [
    KIND_TITLES[kind],
    heldOutLoss[kind].toFixed(3),
    `${(100 * endedShare).toFixed(1)} %`,
    ...quantiles.map(String),
  ])
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/** The measured part of the package's README, in Markdown. */
export function measuredSection(measured: Measurements): string {
  const { parameters, bytes, steps, trainedTokens, minutes, heldOutLoss, endings, samples } = measured
  const perKind = endings[0]?.samples ?? 0
  return [
    `${parameters.toLocaleString('en-US')} parameters, ${(bytes / 1e6).toFixed(2)} MB of float16 weights. ` +
      `Trained for ${steps.toLocaleString('en-US')} steps on ${(trainedTokens / 1e6).toFixed(1)} million tokens in ${minutes.toFixed(1)} minutes on two CPU cores.`,
    '',
    `Held-out loss ${heldOutLoss.all.toFixed(3)} nats per token (prompts that the training text does not contain). ` +
      `Below: ${perKind} completions per kind of unseen prompts at temperature 1; the share that ended by itself within 128 tokens, and quantiles of the lengths in tokens.`,
    '',
    lengthTable(measured),
    '',
    `The first ${samples.length} completions of unseen prompts, not picked:`,
    '',
    samples.map(({ prompt, text }) => quoted(`${prompt}${text}`)).join('\n\n    ----\n\n'),
  ].join('\n')
}

/** The README with its measured part replaced. @throws Error when the markers are missing. */
export function replaceMeasured(readme: string, section: string): string {
  const begin = readme.indexOf(BEGIN)
  const end = readme.indexOf(END)
  if (begin < 0 || end < begin) throw new Error(`expected a README with the markers ${BEGIN} and ${END}`)
  return `${readme.slice(0, begin + BEGIN.length)}\n\n${section}\n\n${readme.slice(end)}`
}

/** Puts measurements into the README at `path`. */
export async function updateReadme(path: string, measured: Measurements): Promise<void> {
  await writeFileAtomic(path, replaceMeasured(await readFile(path, 'utf8'), measuredSection(measured)))
}
