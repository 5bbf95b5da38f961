import { readFile } from 'node:fs/promises'
import { writeFileAtomic } from '@selfplay/ort'
import { z } from 'zod'

/** Version of `results.json`. */
export const RESULTS_FORMAT = 1

const sample = z.object({ seconds: z.number(), values: z.record(z.string(), z.number()).optional() })
const measured = z.object({
  samples: z.array(sample),
  memory: z.object({ anonymous: z.number(), resident: z.number() }).optional(),
})
const maybe = z.number().nullable()

const caseResult = z.object({
  /** When the call began, ISO 8601. */
  date: z.string(),
  command: z.string(),
  runs: z.number(),
  threads: z.number(),
  load: z.object({ average: z.number(), idle: z.boolean() }),
  machine: z.object({
    cpu: z.string(),
    cores: z.number(),
    memory: z.number(),
    platform: z.string(),
    versions: z.record(z.string(), z.string()),
  }),
  floors: z.object({ gemm: z.number(), bandwidth: z.number() }),
  rows: z.array(
    z.object({
      name: z.string(),
      unit: z.string(),
      ours: z.number(),
      peer: z.union([z.number(), z.literal('not run')]).nullable(),
      peerName: z.string().nullable(),
      ratio: maybe,
      floor: maybe,
      target: z.string().nullable(),
      met: z.boolean().nullable(),
    }),
  ),
  ours: measured,
  peer: measured.nullable(),
})

const resultsSchema = z.object({ formatVersion: z.number(), cases: z.record(z.string(), caseResult) })

/** What was measured of a case when it last ran. */
export type CaseResult = Readonly<z.output<typeof caseResult>>
/** By name of the case. */
export type AllResults = Readonly<Record<string, CaseResult>>

/**
 * Results of earlier calls; none when there is no file.
 * @throws Error when the file is damaged or of a newer format.
 */
export async function readResults(path: string): Promise<AllResults> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
  const value = JSON.parse(text) as { formatVersion?: unknown }
  if (typeof value.formatVersion === 'number' && value.formatVersion > RESULTS_FORMAT) {
    throw new Error(`${path} has format version ${value.formatVersion}; this bench reads up to ${RESULTS_FORMAT}`)
  }
  return resultsSchema.parse(value).cases
}

export async function writeResults(path: string, cases: AllResults): Promise<void> {
  const { format } = await import('prettier')
  const text = JSON.stringify({ formatVersion: RESULTS_FORMAT, cases })
  await writeFileAtomic(path, await format(text, { parser: 'json', printWidth: 120 }))
}
