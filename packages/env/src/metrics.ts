import { EnvContractError } from './errors.js'

/** Numbers about a step, by name. How they are put together is declared once per name, as a {@link Reducer}. */
export type Metrics = Readonly<Record<string, number>>

/** Text and numbers that are shown with a step and never averaged. */
export type Logs = Readonly<Record<string, string | number>>

/**
 * How the values of a metric become one number. The unit is the episode, and every episode counts.
 *
 * - `mean`: the mean within each episode over the steps that report it, then the mean over all episodes; one that does not
 *   report it counts 0. The default.
 * - `mean_present`: the same, over the episodes that report it.
 * - `sum`: the total over all steps of all episodes.
 * - `rate`: the share of all episodes in which it was other than 0.
 */
export type Reducer = 'mean' | 'mean_present' | 'sum' | 'rate'
export type MetricReducers = Readonly<Record<string, Reducer>>

/** Reducers of the metrics that this package itself reports. Names under `stop/` are rates. */
export const frameworkReducers: MetricReducers = {
  parse_error: 'rate',
  parse_error_masked: 'sum',
  parse_retries: 'sum',
  max_tokens_reached: 'rate',
  context_overflow: 'rate',
  truncated_turns: 'sum',
  prefix_breaks: 'sum',
  tool_calls: 'sum',
  tool_errors: 'sum',
  tool_calls_dropped: 'sum',
  illegal_move: 'rate',
}

/**
 * Joins declarations of reducers.
 *
 * @throws EnvContractError when one name is declared in two ways
 */
export function mergeReducers(...tables: readonly (MetricReducers | undefined)[]): MetricReducers {
  const merged: Record<string, Reducer> = {}
  for (const table of tables)
    for (const [name, reducer] of Object.entries(table ?? {})) {
      const before = merged[name]
      if (before !== undefined && before !== reducer)
        throw new EnvContractError(`the metric "${name}" is declared both ${before} and ${reducer}; choose one`, {
          name,
        })
      merged[name] = reducer
    }
  return merged
}

const reducerOf = (name: string, declared: MetricReducers): Reducer =>
  declared[name] ?? frameworkReducers[name] ?? (name.startsWith('stop/') ? 'rate' : 'mean')

/**
 * Reduces the metrics of episodes to one number per name.
 *
 * @param episodes of each episode, the metrics of its steps (those of the group included, as one more entry)
 * @returns `{}` for no episodes
 */
export function reduceMetrics(episodes: readonly (readonly Metrics[])[], declared: MetricReducers = {}): Metrics {
  const names = new Set(episodes.flatMap((steps) => steps.flatMap((metrics) => Object.keys(metrics))))
  const reduced: Record<string, number> = {}
  for (const name of names) {
    const perEpisode = episodes.map((steps) =>
      steps.flatMap((metrics) => (Object.hasOwn(metrics, name) ? [metrics[name]!] : [])),
    )
    reduced[name] = reduce(perEpisode, reducerOf(name, declared))
  }
  return reduced
}

function reduce(perEpisode: readonly (readonly number[])[], reducer: Reducer): number {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  if (reducer === 'sum') return sum(perEpisode.map(sum))
  if (reducer === 'rate')
    return perEpisode.filter((values) => values.some((value) => value !== 0)).length / perEpisode.length
  const present = perEpisode.filter((values) => values.length > 0)
  const means = present.map((values) => sum(values) / values.length)
  return sum(means) / (reducer === 'mean' ? perEpisode.length : present.length)
}
