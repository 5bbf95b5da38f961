import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import type { Datum, SamplingClient, TrainingClient } from '@selfplay/engine'
import { KINDS, unseenPrompts, type Document, type Kind } from './text/documents.js'

/** A tokenizer read from a model folder, as users of the model read it. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const read = async (name: string): Promise<object> => JSON.parse(await readFile(join(folder, name), 'utf8')) as object
  return new Tokenizer(await read('tokenizer.json'), await read('tokenizer_config.json'))
}

/** Mean cross entropy per trained token, in nats, over many sequences. */
export async function meanLoss(client: TrainingClient, data: readonly Datum[], chunk = 64): Promise<number> {
  let sum = 0
  let tokens = 0
  for (let at = 0; at < data.length; at += chunk) {
    const part = data.slice(at, at + chunk)
    sum += (await client.forward(part, { name: 'cross_entropy', normalise: 'sum' })).loss
    tokens += part.reduce(
      (n, { tokens: ids, weights }) => n + (weights?.filter((w) => w !== 0).length ?? ids.length),
      0,
    )
  }
  return sum / tokens
}

/** One sampled completion. */
export interface Sample {
  readonly prompt: string
  readonly text: string
  /** Tokens, the one that ended it included. */
  readonly tokens: number
  readonly ended: boolean
}

export interface SampleOptions {
  /** Default 1. */
  readonly temperature?: number
  readonly maxTokens: number
  readonly samplesPerPrompt: number
  readonly seed: number
}

/** Completions of documents' prompts, in order; each ends at its document's end token or after `maxTokens`. */
export async function sampleDocuments(
  sampler: SamplingClient,
  tokenizer: Tokenizer,
  documents: readonly Document[],
  { temperature = 1, maxTokens, samplesPerPrompt, seed }: SampleOptions,
): Promise<Sample[]> {
  const requests = documents.map(async ({ prompt, end }, index) => {
    const ids = Int32Array.from(tokenizer.encode(prompt, { add_special_tokens: false }).ids)
    const stop = [tokenizer.token_to_id(end) as number]
    const sequences = await sampler.sample({
      prompt: ids,
      numSamples: samplesPerPrompt,
      maxTokens,
      temperature,
      stop,
      seed: seed + index,
    })
    return sequences.map(({ tokens, stopReason }) => ({
      prompt,
      text: decode(tokenizer, tokens),
      tokens: tokens.length,
      ended: stopReason === 'stop',
    }))
  })
  return (await Promise.all(requests)).flat()
}

const decode = (tokenizer: Tokenizer, tokens: Int32Array): string =>
  tokens.length === 0
    ? ''
    : tokenizer.decode([...tokens], { skip_special_tokens: true, clean_up_tokenization_spaces: false })

/** How completions of one kind end and how long they are. */
export interface KindReport {
  readonly kind: Kind
  readonly samples: number
  /** Share of completions that ended by themselves. */
  readonly endedShare: number
  /** Tokens at the 5th, 25th, 50th, 75th and 95th percentile. */
  readonly quantiles: readonly number[]
}

export const QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95] as const

/** The value below which a share of the numbers lies (nearest rank). */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN
}

/** Samples prompts that the model never saw, of each kind, at temperature 1. */
export async function measureEndings(
  sampler: SamplingClient,
  tokenizer: Tokenizer,
  options: {
    readonly prompts: number
    readonly samplesPerPrompt: number
    readonly maxTokens: number
    readonly seed: number
  },
): Promise<KindReport[]> {
  const reports: KindReport[] = []
  for (const kind of KINDS) {
    const documents = unseenPrompts(kind, options.prompts, options.seed)
    const samples = await sampleDocuments(sampler, tokenizer, documents, options)
    const lengths = samples.map(({ tokens }) => tokens)
    reports.push({
      kind,
      samples: samples.length,
      endedShare: samples.filter(({ ended }) => ended).length / samples.length,
      quantiles: QUANTILES.map((share) => quantile(lengths, share)),
    })
  }
  return reports
}
