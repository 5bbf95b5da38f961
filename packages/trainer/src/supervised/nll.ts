import type { CallOptions, Datum, TrainingClient } from '@selfplay/engine'
import type { Renderer, Tokenizer, TrainOnWhat } from '@selfplay/renderers'
import { ConfigError } from '../errors.js'
import type { Evaluator } from '../evaluate/evaluator.js'
import { examplesOf, packByTokens, toSupervisedDatum, type SupervisedDatum, type SupervisedRow } from './examples.js'

/** Sums behind a mean negative log-likelihood. */
export interface Nll {
  /** Sum of w * -log p, nats. */
  readonly nats: number
  /** Sum of w. */
  readonly weight: number
}

/** Sum of w * -log p over the weighted targets; the mean is over all of them, however they were spread over calls. */
export function nllOf(data: readonly Datum[], logprobs: readonly Float32Array[]): Nll {
  let nats = 0
  let weight = 0
  data.forEach(({ weights }, d) =>
    weights!.forEach((w, t) => {
      if (w === 0) return
      nats -= w * logprobs[d]![t]!
      weight += w
    }),
  )
  return { nats, weight }
}

/** UTF-8 bytes of the text of the weighted targets, control tokens left out. Each unbroken run of them is one text. */
export function weightedBytes(
  { targets, weights }: Datum,
  tokenizer: Pick<Tokenizer, 'decode'> & Partial<Pick<Tokenizer, 'controlIds'>>,
): number {
  const encoder = new TextEncoder()
  let bytes = 0
  let run: number[] = []
  const end = () => {
    if (run.length > 0) bytes += encoder.encode(tokenizer.decode(run)).length
    run = []
  }
  targets.forEach((id, t) => {
    if (weights![t] === 0 || tokenizer.controlIds?.has(id)) end()
    else run.push(id)
  })
  end()
  return bytes
}

export interface NllOptions {
  /** Lays out rows that are conversations. */
  readonly renderer?: Renderer
  /** For bits per byte. Default: the renderer's; without any there is no `bpb`. */
  readonly tokenizer?: Pick<Tokenizer, 'decode'> & Partial<Pick<Tokenizer, 'controlIds'>>
  /** Default `all_assistant_messages`. */
  readonly trainOn?: TrainOnWhat
  /** Most positions of an example; the rest is cut off. Default: the model's context. */
  readonly maxLength?: number
  /** Most tokens of one call; null: all at once. Default 16,384. */
  readonly maxTokensPerCall?: number | null
}

/**
 * An evaluator of held-out rows: `<name>/nll`, nats per weighted token, and `<name>/bpb`, bits per UTF-8 byte of the weighted
 * text: nats / (ln 2 * bytes).
 */
export function nllEvaluator(name: string, rows: readonly SupervisedRow[], options: NllOptions = {}): Evaluator {
  if (rows.length === 0) throw new ConfigError(`nllEvaluator("${name}"): expected at least one row, got none`)
  const tokenizer = options.tokenizer ?? options.renderer?.tokenizer
  return {
    name,
    async evaluate({ client, signal }) {
      const data = rows
        .flatMap((row, index) =>
          examplesOf(row, index, { renderer: options.renderer, trainOn: options.trainOn ?? 'all_assistant_messages' }),
        )
        .map((example) => toSupervisedDatum(example, options.maxLength ?? client.info.contextLength))
        .filter((datum) => datum !== null)
      const maxTokens = options.maxTokensPerCall === undefined ? 16_384 : options.maxTokensPerCall
      const { nats, weight } = await evaluateNll(client, data, { maxTokens, signal })
      const bytes = tokenizer ? data.reduce((sum, { datum }) => sum + weightedBytes(datum, tokenizer), 0) : 0
      return {
        ...(weight > 0 && { nll: nats / weight }),
        ...(bytes > 0 && { bpb: nats / (Math.LN2 * bytes) }),
        num_loss_tokens: weight,
      }
    },
  }
}

/** The negative log-likelihood of data under a client's policy. */
export async function evaluateNll(
  client: TrainingClient,
  data: readonly SupervisedDatum[],
  { maxTokens, ...call }: CallOptions & { readonly maxTokens: number | null },
): Promise<Nll> {
  let nats = 0
  let weight = 0
  const lengths = data.map(({ datum }) => datum.tokens.length)
  for (const items of packByTokens(lengths, maxTokens)) {
    const datums = items.map((index) => data[index]!.datum)
    const { logprobs } = await client.forward(datums, { name: 'cross_entropy' }, call)
    const part = nllOf(datums, logprobs)
    nats += part.nats
    weight += part.weight
  }
  return { nats, weight }
}
