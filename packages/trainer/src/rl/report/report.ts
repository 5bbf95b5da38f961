import type { MetricsRow } from '../../track/tracker.js'
import type { GroupRecord } from '../record.js'
import { lineChart, pointTable, short, type Point } from './chart.js'
import { fragment, page, type Html } from './html.js'

/** What a chart is made for, when there are values of it. */
const CHARTS: readonly (readonly [name: string, title: string])[] = [
  ['env/all/reward/total', 'Mean reward of an episode'],
  ['reward/group_std', 'Spread of the returns within a group'],
  ['env/all/ac_tokens_per_turn', 'Sampled tokens per turn'],
  ['env/all/turns_per_episode', 'Turns per episode'],
  ['optim/entropy', 'Entropy of the samples, nats per token'],
  ['kl_policy_base', 'KL to the reference, nats per token'],
  ['optim/kl_sample_train_v1', 'KL between sampler and trainer, nats per token'],
  ['optim/grad_norm', 'Gradient norm before clipping'],
  ['optim/lr', 'Learning rate'],
  ['frac_constant_groups', 'Share of groups whose returns are all equal'],
]

export interface ReportContent {
  /** Name of the run. */
  readonly name: string
  /** Rows of `metrics.jsonl`, the newest last. */
  readonly rows: readonly MetricsRow[]
  /** Rows of `evaluations.jsonl`. */
  readonly evaluations: readonly MetricsRow[]
  /** Groups of the newest update to show. */
  readonly groups: readonly GroupRecord[]
}

const pointsOf = (rows: readonly MetricsRow[], name: string): Point[] =>
  rows.flatMap((row) => (row[name] === undefined ? [] : [{ x: row['step']!, y: row[name] }]))

/**
 * A page about a run: charts with a table beside each, the newest numbers, and some episodes in full. Everything that a model
 * or a task wrote is escaped; the page holds no scripts and asks for nothing from elsewhere.
 */
export function renderReport({ name, rows, evaluations, groups }: ReportContent): string {
  const newest = rows.at(-1)
  const step = newest?.['step'] ?? 0
  const charts = CHARTS.map(([metric, title]) => chartSection(title, metric, pointsOf(rows, metric)))
  const evaluated = evaluationNames(evaluations).map((metric) =>
    chartSection(`Evaluation: ${metric}`, metric, pointsOf(evaluations, metric)),
  )
  const body = fragment`<h1>${name}, update ${step}</h1>
${charts}${evaluated}
<h2>Episodes of update ${step}</h2>
${groups.length === 0 ? fragment`<p class="note">none shown</p>` : groups.map(groupSection)}
<h2>All numbers of update ${step}</h2>
${numbersTable(newest ?? {})}`
  return page(`${name}, update ${step}`, body)
}

/** The mean rewards of evaluations, and whatever else evaluators measure that is not about environments. */
const evaluationNames = (rows: readonly MetricsRow[]): string[] => {
  const names = new Set(rows.flatMap((row) => Object.keys(row)))
  return [...names].filter(
    (name) => name !== 'step' && (name.endsWith('env/all/reward/total') || !/\/(env|rollout_errors)\//.test(name)),
  )
}

function chartSection(title: string, metric: string, points: readonly Point[]): Html {
  if (points.length === 0) return fragment``
  return fragment`<h2>${title}</h2>
<div class="pair">${lineChart(title, points)}${pointTable(metric, points)}</div>
`
}

function numbersTable(row: MetricsRow): Html {
  const lines = Object.entries(row).map(([name, value]) => fragment`<tr><td>${name}</td><td>${short(value)}</td></tr>`)
  return fragment`<table><thead><tr><th>metric</th><th>value</th></tr></thead><tbody>${lines}</tbody></table>`
}

function groupSection(record: GroupRecord): Html {
  const tags = record.tags.length > 0 ? ` (${record.tags.join(', ')})` : ''
  const reason = record.reason === null ? fragment`` : fragment`<p class="note">${record.reason}</p>`
  const failures = record.failures.map(
    ({ slot, boundary, code, message }) =>
      fragment`<p class="note">slot ${slot ?? 'all'}: ${boundary}: ${code}: ${message}</p>`,
  )
  return fragment`<h3>Group ${record.group}${tags}: ${record.status}, ${record.use}</h3>
${reason}${failures}${record.members.map(memberSection)}`
}

function memberSection(member: GroupRecord['members'][number]): Html {
  const { slot, reward, groupReward, stopReason, turns, advantages } = member
  const shown = turns.map((turn, t) => {
    const advantage = advantages ? short(advantages[t]!) : 'none'
    const facts = `reward ${short(turn.reward)}, advantage ${advantage}, ${turn.tokens.length} tokens${turn.masked ? ', masked' : ''}`
    return fragment`<pre>${turn.promptText ?? turn.prompt.join(' ')}</pre>
<pre class="sampled">${turn.text ?? turn.tokens.join(' ')}</pre>
<p class="note">turn ${t + 1}: ${facts}</p>
`
  })
  const summary = `Slot ${slot}: reward ${short(reward)} (of the group ${short(groupReward)}), ended by ${stopReason ?? 'the environment'}`
  return fragment`<details><summary>${summary}</summary>
${shown}</details>
`
}
