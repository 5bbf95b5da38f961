import { neverAborted } from '@selfplay/env'
import { z } from 'zod'
import { callable, having, parseOptions, show } from '../options.js'
import type { Sandbox } from '../sandbox/sandbox.js'
import { extract, extractionFailed, type Extractor } from './extract.js'
import { rejected, type Verdict, type VerdictReason } from './verdict.js'

export interface CodeCase {
  /** What the function is called with: JSON values. */
  readonly args: readonly unknown[]
  /** What it must return (or resolve to): a JSON value. The program never sees it. */
  readonly expected: unknown
}

/** What a program must do. */
export interface CodeTask {
  /** The function that the program defines. */
  readonly name: string
  /** At least one. */
  readonly cases: readonly CodeCase[]
}

export interface VerifyCodeOptions {
  /** Where the program runs; see `createSandbox` for its limits. */
  readonly sandbox: Sandbox
  /** Where the program stands. Default: a fenced block of JavaScript if there is one, else the whole text. */
  readonly extract?: Extractor
  /** `share` (default): the score is the share of cases that pass. `all`: it is 1 only if all do. */
  readonly scoring?: 'share' | 'all'
  /** Numbers may differ from those expected by this share of them. Default 0. */
  readonly relative?: number
  readonly signal?: AbortSignal
}

const schema = z.strictObject({
  sandbox: having<Sandbox>('run'),
  extract: callable<Extractor>().default(() =>
    extract.firstOf(extract.fenced(['js', 'javascript', 'mjs', '']), extract.whole()),
  ),
  scoring: z.enum(['share', 'all']).default('share'),
  relative: z.number().nonnegative().default(0),
  signal: z.instanceof(AbortSignal).default(neverAborted),
})

const taskSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z_$][\w$]*$/, 'expected the name of a function'),
  cases: z.array(z.strictObject({ args: z.array(z.json()), expected: z.json() })).min(1),
})

export interface CodeVerdict extends Verdict {
  /** What each case did. Empty when there was no program. */
  readonly cases: readonly { readonly passed: boolean; readonly reason: VerdictReason; readonly detail?: string }[]
}

/**
 * Runs a program on test cases, each in a fresh world. Its reason is that of the first case that did not pass. After a
 * case runs out of time the others are not run: they do not pass.
 *
 * @throws RewardOptionsError for a task that is none; SandboxMissingError, SandboxError; the signal's reason when aborted
 */
export async function verifyCode(answer: string, task: CodeTask, options: VerifyCodeOptions): Promise<CodeVerdict> {
  const { sandbox, extract: find, scoring, relative, signal } = parseOptions(schema, options, 'verifyCode')
  const { name, cases } = parseOptions(taskSchema, task, 'verifyCode.task')
  const found = find(answer)
  if (!found.ok) return { ...extractionFailed(found), cases: [] }
  const results: CodeVerdict['cases'][number][] = []
  for (const { args, expected } of cases) {
    if (results.at(-1)?.reason === 'timeout') {
      results.push({ passed: false, reason: 'timeout', detail: 'not run' })
      continue
    }
    const result = await sandbox.run({ program: found.text, name, args }, { signal })
    if (!result.ok) {
      const reason = result.kind === 'syntax' ? 'unreadable' : result.kind
      results.push({ passed: false, reason, detail: result.detail })
    } else {
      const passed = sameJson(JSON.parse(result.json), expected, relative)
      results.push(
        passed
          ? { passed, reason: 'match' }
          : { passed, reason: 'mismatch', detail: `got ${show(JSON.parse(result.json))}` },
      )
    }
  }
  const passed = results.filter((one) => one.passed).length
  const failed = results.find((one) => !one.passed)
  if (!failed) return { score: 1, reason: 'match', answer: found.text, cases: results }
  const verdict = rejected(failed.reason === 'match' ? 'mismatch' : failed.reason, {
    answer: found.text,
    detail: `${passed} of ${cases.length} cases passed${failed.detail === undefined ? '' : `; ${failed.detail}`}`,
  })
  return { ...verdict, score: scoring === 'share' ? passed / cases.length : 0, cases: results }
}

/** Whether two JSON values are equal; the order of keys does not count. */
function sameJson(value: unknown, expected: unknown, relative: number): boolean {
  if (typeof value === 'number' && typeof expected === 'number')
    return value === expected || Math.abs(value - expected) <= relative * Math.abs(expected)
  if (typeof value !== 'object' || typeof expected !== 'object' || value === null || expected === null)
    return value === expected
  if (Array.isArray(value) !== Array.isArray(expected)) return false
  const [keys, wanted] = [Object.keys(value), Object.keys(expected)]
  return (
    keys.length === wanted.length &&
    wanted.every(
      (key) =>
        Object.hasOwn(value, key) &&
        sameJson((value as Record<string, unknown>)[key], (expected as Record<string, unknown>)[key], relative),
    )
  )
}
