import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { ConfigError } from '../errors.js'
import { legalName } from '../run/legal-name.js'
import type { MetricsRow, RunInfo, RunOutcome, Tracker } from './tracker.js'

export interface WandbOptions {
  /** Default `selfplay`. */
  readonly project?: string
  /** Default: the account's own. */
  readonly entity?: string
  readonly tags?: readonly string[]
  /** Default `WANDB_BASE_URL`, else `https://api.wandb.ai`. */
  readonly baseUrl?: string
  /** Seconds between deliveries. Default 5. */
  readonly flushSeconds?: number
  /** Pause in seconds after a delivery that failed, doubled each time up to a minute. Default 1. */
  readonly retrySeconds?: number
  /**
   * Most seconds that the end of a run waits for the last delivery; when the run was aborted, or is meanwhile, 1 at most. What has
   * not arrived by then is in the run folder only. Default 5.
   */
  readonly finishSeconds?: number
  /** Rows kept while the service cannot be reached; the oldest go first. Default 10,000. */
  readonly maxQueued?: number
  /** Told in words when rows cannot be delivered. Never holds the key. */
  readonly onTrouble?: (message: string) => void
}

const UPSERT = `mutation UpsertBucket($name: String!, $project: String, $entity: String, $displayName: String, $config: JSONString, $groupName: String, $jobType: String, $tags: [String!]) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config, groupName: $groupName, jobType: $jobType, tags: $tags}) {
    bucket { project { name entity { name } } }
  }
}`

const viewerReply = z.object({ data: z.object({ viewer: z.object({ entity: z.string() }) }) })
const upsertReply = z.object({
  data: z.object({
    upsertBucket: z.object({
      bucket: z.object({ project: z.object({ name: z.string(), entity: z.object({ name: z.string() }) }) }),
    }),
  }),
})

/** An answer that will not change when the request is repeated. */
class Refused extends Error {}

const REQUEST_SECONDS = 10
/** Answers of the service have some hundred bytes. */
const MOST_ANSWER_BYTES = 2 ** 20
const MAX_BACKOFF_SECONDS = 60
const FINISH_SECONDS = 5
/** Somebody is waiting for the process to end. */
const ABORTED_SECONDS = 1

/**
 * A tracker for Weights & Biases over its HTTP protocol. The key comes from the environment variable `WANDB_API_KEY` and goes
 * nowhere but into the authorisation header.
 *
 * Rows are queued and delivered in batches in the background, with growing pauses while the service does not answer. Nothing
 * that the service does stops, slows or fails a run. A run that is taken up again, in this process or another, appears as a run
 * of its own in the same group.
 *
 * @throws ConfigError when `WANDB_API_KEY` is not set, or the address is none that can be used.
 */
export function wandbTracker(options: WandbOptions = {}): Tracker {
  const key = process.env['WANDB_API_KEY']
  if (!key) {
    throw new ConfigError('W&B is on, but the environment variable WANDB_API_KEY is not set: set it, or leave W&B off')
  }
  const baseUrl = checkBaseUrl(options.baseUrl ?? (process.env['WANDB_BASE_URL'] || 'https://api.wandb.ai'))
  let run: WandbRun | null = null
  return {
    start: (info) => void (run = new WandbRun(key, { ...options, baseUrl }, info)),
    log: (row) => run?.log(row),
    finish: async (outcome, call) => run?.finish(outcome, call),
  }
}

/** The address without its slashes at the end. It is never quoted: it may hold a password. */
function checkBaseUrl(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url && ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.password === '') {
    return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
  }
  throw new ConfigError(
    'WANDB_BASE_URL: expected an http(s) address such as https://api.wandb.ai, without a user name or password, got ' +
      'something else; the key belongs in WANDB_API_KEY',
  )
}

/** A message with its cause, since fetch says no more than that it failed. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  const reason = cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : undefined
  return reason === undefined ? error.message : `${error.message} (${reason})`
}

/** The text of an answer. @throws Error when it is longer than any that the service gives. */
async function readBounded({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    if (bytes > MOST_ANSWER_BYTES) throw new Error(`it answered more than ${MOST_ANSWER_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** One run as the service knows it: from its start to its end. */
class WandbRun {
  private readonly key: string
  private readonly options: WandbOptions & { readonly baseUrl: string }
  private readonly info: RunInfo
  private readonly stopping = new AbortController()
  private readonly started = Date.now()
  private readonly id: string
  /** Where rows are posted, once the service knows the run. */
  private stream: string | null = null
  /** The row of the newest step: rows of one step become one line. */
  private current: Record<string, number> | null = null
  private queue: string[] = []
  /** Lines that the service has taken. */
  private delivered = 0
  private summary: Record<string, number> = {}
  private timer: NodeJS.Timeout | undefined
  private sending: Promise<void> | null = null
  private pause = 0
  private dropped = 0
  private off = false
  private told = new Set<string>()

  constructor(key: string, options: WandbOptions & { readonly baseUrl: string }, info: RunInfo) {
    this.key = key
    this.options = options
    this.info = info
    const place = `${info.name}/${info.resumedAt}/${this.started}`
    this.id = createHash('sha256').update(place, 'utf8').digest('hex').slice(0, 12)
    this.schedule(0)
  }

  log(row: MetricsRow): void {
    if (this.off) return
    const step = row['step'] ?? 0
    if (this.current && this.current['_step'] !== step) this.closeRow()
    const now = Date.now()
    this.current = {
      ...this.current,
      ...row,
      _step: step,
      _runtime: (now - this.started) / 1000,
      _timestamp: now / 1000,
    }
  }

  async finish(outcome: RunOutcome, { signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.off) return
    clearTimeout(this.timer)
    this.closeRow()
    const { finishSeconds = FINISH_SECONDS } = this.options
    const stopAfter = (seconds: number) => setTimeout(() => this.stopping.abort(), seconds * 1000)
    const deadlines = [stopAfter(finishSeconds)]
    const hurry = () => deadlines.push(stopAfter(Math.min(finishSeconds, ABORTED_SECONDS)))
    if (outcome === 'aborted' || signal?.aborted) hurry()
    else signal?.addEventListener('abort', hurry, { once: true })
    try {
      while (!this.stopping.signal.aborted && !this.off) {
        await this.deliver()
        if (this.stream && this.queue.length === 0) {
          if (await this.complete(outcome)) return
        }
        if (!this.off) await this.rest()
      }
      if (!this.off) this.trouble('late', 'W&B did not answer in time: the last rows are only in the run folder')
    } finally {
      signal?.removeEventListener('abort', hurry)
      for (const deadline of deadlines) clearTimeout(deadline)
      this.off = true
    }
  }

  private closeRow(): void {
    if (!this.current) return
    this.queue.push(JSON.stringify(this.current))
    this.summary = { ...this.summary, ...this.current }
    this.current = null
    const surplus = this.queue.length - (this.options.maxQueued ?? 10_000)
    if (surplus <= 0) return
    this.queue.splice(0, surplus)
    this.dropped += surplus
    this.trouble('dropped', 'W&B cannot be reached and its queue is full: the oldest rows are only in the run folder')
  }

  private schedule(seconds: number): void {
    if (this.off) return
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      void this.deliver().then(() => this.schedule(Math.max(this.pause, this.options.flushSeconds ?? 5)))
    }, seconds * 1000)
    this.timer.unref()
  }

  /** Waits out the pause, or the end of the deadline. */
  private rest(): Promise<void> {
    return delay(Math.max(this.pause, 0.05) * 1000, undefined, { signal: this.stopping.signal }).catch(() => {})
  }

  /** One delivery at a time; never rejects. */
  private deliver(): Promise<void> {
    this.sending ??= this.attempt(async () => {
      this.stream ??= await this.register()
      if (this.queue.length === 0) return
      const lines = this.queue.slice()
      await this.post(this.stream, {
        files: {
          'wandb-history.jsonl': { offset: this.delivered, content: lines },
          'wandb-summary.json': { offset: 0, content: [JSON.stringify(this.summary)] },
        },
      })
      this.delivered += lines.length
      this.queue.splice(0, lines.length)
    }).then(() => {
      this.sending = null
    })
    return this.sending
  }

  private async complete(outcome: RunOutcome): Promise<boolean> {
    let done = false
    await this.attempt(async () => {
      await this.post(this.stream!, { complete: true, exitcode: outcome === 'finished' ? 0 : 1 })
      done = true
    })
    return done
  }

  /** Runs a piece of delivery: a failure lengthens the pause, a refusal switches the tracker off. */
  private async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.pause = 0
    } catch (error) {
      const message = this.clean(messageOf(error))
      if (error instanceof Refused) {
        this.off = true
        this.queue = []
        clearTimeout(this.timer)
        this.trouble('refused', `W&B refused the run and is off now: ${message}. The run folder has everything`)
        return
      }
      this.pause = Math.min(Math.max(this.options.retrySeconds ?? 1, this.pause * 2), MAX_BACKOFF_SECONDS)
      if (!this.stopping.signal.aborted) this.trouble('unreachable', `W&B does not answer, trying again: ${message}`)
    }
  }

  /** Makes the run known. Returns where its rows go. */
  private async register(): Promise<string> {
    const { project = 'selfplay', tags = [] } = this.options
    const { name, config, resumedAt } = this.info
    const entity = this.options.entity ?? (await this.ownEntity())
    const displayName = resumedAt > 0 ? `${name} (from ${resumedAt})` : name
    const wrapped = Object.fromEntries(Object.entries(config).map(([option, value]) => [option, { value }]))
    const reply = upsertReply.safeParse(
      await this.post('/graphql', {
        query: UPSERT,
        variables: {
          name: this.id,
          project,
          entity,
          displayName,
          config: JSON.stringify(wrapped),
          groupName: legalName(name),
          jobType: 'train',
          tags,
        },
      }),
    )
    if (!reply.success) throw new Refused('it did not accept the run (project or entity unknown?)')
    const { name: projectName, entity: owner } = reply.data.data.upsertBucket.bucket.project
    const path = [owner.name, projectName, this.id].map((part) => encodeURIComponent(part)).join('/')
    return `/files/${path}/file_stream`
  }

  private async ownEntity(): Promise<string> {
    const reply = viewerReply.safeParse(await this.post('/graphql', { query: 'query Viewer { viewer { entity } }' }))
    if (!reply.success) throw new Refused('the key belongs to no account')
    return reply.data.data.viewer.entity
  }

  private async post(path: string, body: unknown): Promise<unknown> {
    const response = await fetch(`${this.options.baseUrl}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Basic ${Buffer.from(`api:${this.key}`, 'utf8').toString('base64')}`,
      },
      body: JSON.stringify(body),
      signal: AbortSignal.any([this.stopping.signal, AbortSignal.timeout(REQUEST_SECONDS * 1000)]),
    })
    if (response.ok) {
      const text = await readBounded(response)
      try {
        return text === '' ? {} : (JSON.parse(text) as unknown)
      } catch {
        throw new Error(`it answered something that is no JSON`)
      }
    }
    await response.body?.cancel()
    const passing = response.status >= 500 || response.status === 429 || response.status === 408
    const problem = `HTTP ${response.status} ${response.statusText}`
    throw passing ? new Error(problem) : new Refused(problem)
  }

  /** Tells a kind of trouble once. */
  private trouble(kind: string, message: string): void {
    if (this.told.has(kind)) return
    this.told.add(kind)
    try {
      this.options.onTrouble?.(this.clean(message))
    } catch {
      // What listens must not stop a run either.
    }
  }

  /** Text without the key, in case a proxy or the service echoes it. */
  private clean(text: string): string {
    const encoded = Buffer.from(`api:${this.key}`, 'utf8').toString('base64')
    return text.replaceAll(this.key, '***').replaceAll(encoded, '***')
  }
}
