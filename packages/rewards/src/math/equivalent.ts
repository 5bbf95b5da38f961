import { evaluate, sameValue, type Tolerance, type Value } from './evaluate.js'
import type { Expression } from './parse.js'
import { rational, type Rational } from './rational.js'

/** Names of the variables of an expression, each once. */
function variablesOf(expression: Expression): Set<string> {
  const names = new Set<string>()
  const visit = (inner: Expression): void => {
    if (inner.type === 'variable') names.add(inner.name)
    else if (inner.type === 'binary') for (const side of [inner.left, inner.right]) visit(side)
    else if (inner.type === 'mixed') for (const part of [inner.whole, inner.fraction]) visit(part)
    else if (inner.type === 'root') for (const part of [inner.index, inner.of]) visit(part)
    else if ('of' in inner) visit(inner.of)
  }
  visit(expression)
  return names
}

/** Parts of primes, so that no simple relation holds between them. Negative, small and larger values. */
const POINTS = [
  [101n, 97n],
  [-89n, 83n],
  [29n, 71n],
  [-17n, 59n],
  [313n, 107n],
  [43n, 11n],
] as const
const STEPS = [
  [7n, 13n],
  [19n, 23n],
  [5n, 31n],
  [37n, 41n],
  [2n, 3n],
  [47n, 53n],
] as const

/** Value of the k-th variable at a point. */
function valueAt(point: number, k: number): Rational {
  const [n, d] = POINTS[point]!
  const [stepN, stepD] = STEPS[point]!
  return rational(n * stepD + BigInt(k) * stepN * d, d * stepD)
}

export type Equivalence = 'same' | 'different' | 'undefined'

/**
 * Whether two expressions are the same function: they have the same value at fixed points, exactly so for rational functions
 * (Schwartz 1980: two different polynomials of degree d agree at few points), within the error of doubles for others. Points
 * where either has no value are passed over; with fewer than two left, nothing can be said.
 */
export function equivalent(answer: Expression, expected: Expression, tolerance: Tolerance = {}): Equivalence {
  const names = [...new Set([...variablesOf(answer), ...variablesOf(expected)])].sort()
  if (names.length === 0) return compare(evaluate(answer), evaluate(expected), tolerance)
  const results = POINTS.map((_, point) => {
    const variables = new Map(names.map((name, k) => [name, valueAt(point, k)]))
    return compare(evaluate(answer, variables), evaluate(expected, variables), tolerance)
  }).filter((result) => result !== 'undefined')
  if (results.length < 2) return 'undefined'
  return results.every((result) => result === 'same') ? 'same' : 'different'
}

function compare(answer: Value | undefined, expected: Value | undefined, tolerance: Tolerance): Equivalence {
  if (!answer || !expected) return 'undefined'
  return sameValue(answer, expected, tolerance) ? 'same' : 'different'
}
