import { derivedSeed, TokenStream } from '../sample/random.js'

/**
 * PEFT's start: A uniform in +-1/sqrt(in), B zero, so that the adapted model begins as its base.
 *
 * @param index of the matrix in the adapter: each has a random stream of its own.
 */
export function initialLora(name: string, shape: readonly number[], seed: number, index: number): Float32Array {
  const values = new Float32Array(shape[0]! * shape[1]!)
  if (name.endsWith('lora_B.weight')) return values
  const bound = 1 / Math.sqrt(shape[1]!)
  const stream = new TokenStream(derivedSeed(seed, index), 0)
  const pair = new Float32Array(2)
  for (let at = 0; at < values.length; at++) {
    if (at % 2 === 0) stream.draw(at / 2, pair, 0)
    values[at] = (2 * pair[at % 2]! - 1) * bound
  }
  return values
}
