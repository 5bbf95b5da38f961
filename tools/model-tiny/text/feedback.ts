import type { Random } from './random.js'

/** The feedback on lengths that a second turn starts with. `ratio` is printed with one digit. */
export const feedbackPrompt = (prompt: string, characters: number, ratio: string): string =>
  `${prompt}\n\nYour last answer had ${characters} characters. The second answer was ${ratio} times as long as the first; ` +
  'the goal is 2 to 3 times. Please write an improved answer.'

/** A length between 10 and about 550, short ones more often. */
export const drawCharacters = (random: Random): number => Math.round(10 * 55 ** random.next())

/** A ratio between 0.1 and 20, near 1 most often. */
export const drawRatio = (random: Random): string => {
  const centred = random.next() + random.next() + random.next() - 1.5
  return Math.min(20, Math.max(0.1, Math.exp(1.6 * centred))).toFixed(1)
}
