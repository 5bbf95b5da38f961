import { InvalidArgumentError } from 'commander'

/** Values of options, as commander takes parsers: what was typed to what was meant, or InvalidArgumentError. */
type Parser<T> = (text: string) => T

function number(text: string): number {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : Number.NaN
}

/** A whole number from `least` on. */
export const wholeFrom =
  (least: number): Parser<number> =>
  (text) => {
    const value = number(text)
    if (Number.isSafeInteger(value) && value >= least) return value
    throw new InvalidArgumentError(`Expected a whole number from ${least} on.`)
  }

/** Any whole number. */
export const whole: Parser<number> = (text) => {
  const value = number(text)
  if (Number.isSafeInteger(value)) return value
  throw new InvalidArgumentError('Expected a whole number.')
}

/** A finite number greater than 0. */
export const positive =
  (example: string): Parser<number> =>
  (text) => {
    const value = number(text)
    if (Number.isFinite(value) && value > 0) return value
    throw new InvalidArgumentError(`Expected a number greater than 0, such as ${example}.`)
  }

/** Text that is not empty. */
export const someText: Parser<string> = (text) => {
  if (text.trim() !== '') return text
  throw new InvalidArgumentError('Expected some text, got none.')
}
