import { system, textOf, user, type Message, type MessageEnv, type MessageStepResult, type Random } from '@selfplay/env'
import { charCount } from '@selfplay/rewards'

const TOPICS = ['coffee shop', 'bookshop', 'robot dog', 'space station', 'jazz band', 'flower shop', 'sailboat']
const FIRST = ['The Golden', 'The Quiet', 'Little', 'Midnight', 'The Wandering', 'Lucky', 'Two', 'The Last']
const SECOND = ['Lantern', 'Acorn', 'Whisper', 'Compass', 'Sparrow', 'Kettle', 'Ladder', 'Comet']
const THIRD = ['', '', ' House', ' and Company', ' of the North', ' at the Corner', ': Where Old Maps Sleep']
const RIVALS = 3

/**
 * The naming game for one person: three scripted rivals name the same thing, and the longer name wins each meeting. The reward
 * is the person's share of a group of four: meetings won less meetings lost, divided by all 6.
 */
export function namingGame(random: Random): MessageEnv {
  const topic = random.pick(TOPICS)
  const names = Array.from(
    { length: RIVALS },
    () => `${random.pick(FIRST)} ${random.pick(SECOND)}${random.pick(THIRD)}`,
  )
  const all = ((RIVALS + 1) * RIVALS) / 2
  return {
    initialObservation: (): Message[] => [
      system('You are a creative naming expert. Reply with just a name, nothing else.'),
      user(`Invent a creative name for a ${topic}.`),
    ],
    step(reply): MessageStepResult {
      const own = charCount(textOf(reply).trim())
      const results = names.map((name) => Math.sign(own - charCount(name)))
      const said = names.map((name, k) => `${name} (${['longer than yours', 'as long', 'shorter'][results[k]! + 1]})`)
      return {
        reward: results.reduce((sum, result) => sum + result, 0) / all,
        episodeDone: true,
        nextMessages: [user(`The others said: ${said.join('; ')}.`)],
        metrics: { meetings_won: results.filter((result) => result > 0).length },
      }
    },
  }
}
