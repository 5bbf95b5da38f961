import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { CheckContext, LearningCheck } from './check.js'
import { runExample } from './example-run.js'
import { atLeast, type Finding } from './finding.js'

const summarySchema = z.object({
  accuracy: z.number(),
  heldOut: z.number(),
  winRate: z.number(),
  winRateByRule: z.number(),
})

/** What `examples/pairwise-preference.ts` must come to. */
export const pairwisePreferenceCheck: LearningCheck = {
  name: 'pairwise-preference',
  about: 'a judge learns from 2,000 labelled comparisons, a policy from the judge: examples/pairwise-preference.ts',
  run: (context) => verifyPairwisePreference(context),
}

/** @param args of the example, for shorter runs. */
export async function verifyPairwisePreference(
  { model, seed, directory, signal }: CheckContext,
  args: readonly string[] = [],
): Promise<readonly Finding[]> {
  await runExample('pairwise-preference.ts', [model, '--seed', String(seed), '--output', directory, ...args], signal)
  const summary: unknown = JSON.parse(await readFile(join(directory, 'summary.json'), 'utf8'))
  const { accuracy, heldOut, winRate, winRateByRule } = summarySchema.parse(summary)
  return [
    atLeast(`share of ${heldOut} comparisons of unseen names that the judge gets right`, accuracy, 0.9),
    atLeast('win rate of the policy against its start, by the judge', winRate, 0.75),
    atLeast('the same by the rule behind the labels', winRateByRule, 0.75),
  ]
}
