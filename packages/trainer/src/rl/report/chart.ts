import { fragment, type Html } from './html.js'

export interface Point {
  readonly x: number
  readonly y: number
}

const WIDTH = 480
const HEIGHT = 220
const LEFT = 64
const RIGHT = 12
const TOP = 12
const BOTTOM = 28

/** A number for people: four significant digits. */
export const short = (value: number): string => {
  if (!Number.isFinite(value)) return String(value)
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2)
  return String(Number(value.toPrecision(4)))
}

/** Steps of 1, 2 or 5 times a power of ten from `low` to `high`, about four of them. */
export function ticks(low: number, high: number): number[] {
  const rough = (high - low) / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough)!
  const first = Math.ceil(low / step - 1e-9)
  const last = Math.floor(high / step + 1e-9)
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step)
}

function rangeOf(values: readonly number[]): [number, number] {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity)
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity)
  if (low < high) return [low, high]
  const room = Math.abs(low) > 0 ? Math.abs(low) * 0.1 : 1
  return [low - room, high + room]
}

/** A line through points as SVG. A point alone is a dot. Values that are not finite leave a gap. */
export function lineChart(title: string, points: readonly Point[]): Html {
  const finite = points.filter(({ y }) => Number.isFinite(y))
  if (finite.length === 0) return fragment`<p class="note">no values yet</p>`
  const [x0, x1] = rangeOf(finite.map(({ x }) => x))
  const [y0, y1] = rangeOf(finite.map(({ y }) => y))
  const atX = (x: number) => (LEFT + ((x - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT)).toFixed(1)
  const atY = (y: number) => (HEIGHT - BOTTOM - ((y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM)).toFixed(1)
  const runs: Point[][] = [[]]
  for (const point of points) {
    if (Number.isFinite(point.y)) runs.at(-1)!.push(point)
    else runs.push([])
  }
  const drawn = runs
    .filter((run) => run.length > 0)
    .map((run) =>
      run.length === 1
        ? fragment`<circle class="dot" cx="${atX(run[0]!.x)}" cy="${atY(run[0]!.y)}" r="3"/>`
        : fragment`<polyline class="line" points="${run.map(({ x, y }) => `${atX(x)},${atY(y)}`).join(' ')}"/>`,
    )
  const yTicks = ticks(y0, y1).map(
    (y) =>
      fragment`<text x="${LEFT - 6}" y="${atY(y)}" text-anchor="end" dominant-baseline="middle">${short(y)}</text>`,
  )
  const xTicks = ticks(x0, x1)
    .filter(Number.isInteger)
    .map((x) => fragment`<text x="${atX(x)}" y="${HEIGHT - 8}" text-anchor="middle">${short(x)}</text>`)
  return fragment`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${title}">
<path class="axis" d="M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}"/>${yTicks}${xTicks}${drawn}</svg>`
}

const TABLE_ROWS = 10

/** The same points as text: at most ten of them, first and last included. */
export function pointTable(name: string, points: readonly Point[]): Html {
  const count = Math.min(points.length, TABLE_ROWS)
  const chosen = Array.from(
    { length: count },
    (_, k) => points[count === 1 ? 0 : Math.round((k * (points.length - 1)) / (count - 1))]!,
  )
  const rows = chosen.map(({ x, y }) => fragment`<tr><td>${x}</td><td>${short(y)}</td></tr>`)
  return fragment`<table><thead><tr><th>update</th><th>${name}</th></tr></thead><tbody>${rows}</tbody></table>`
}
