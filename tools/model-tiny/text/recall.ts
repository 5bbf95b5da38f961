import { conjugate, joinList } from './english.js'
import { expand, newScope } from './grammar.js'
import type { Random } from './random.js'

/** A request whose answer stands in the request itself: what teaches a small model to look back at the words it was given. */
export interface Recall {
  readonly user: string
  readonly answer: string
}

const PHRASES = [
  '{color} {thing}',
  '{looks} {thing}',
  '{mood} {animal}',
  '{mood} {person}',
  '{flavor} {course}',
  '{creature}',
  '{many}',
  '{name}',
  '{place}',
  '{doing}',
  '{thing}',
  '{animal}',
  '{act} {softly}',
  '{event}',
  '{talker}',
  '{food}',
  '{coin}',
]

function echo(random: Random): Recall {
  const scope = newScope()
  const items = Array.from({ length: random.int(1, 9) }, () => expand(random.pick(PHRASES), scope, random))
  const text = items.join(random.pick([', ', ', ', ' ']))
  const user = random.pick([
    `Repeat: ${text}.`,
    `Repeat after me: ${text}.`,
    `Say this again: ${text}.`,
    `Copy these words: ${text}.`,
  ])
  return { user, answer: `${text}.` }
}

function belongings(random: Random): Recall {
  const scope = newScope()
  const owner = expand('{name}', scope, random)
  const other = expand('{name}', scope, random)
  const some = (): string[] =>
    Array.from({ length: random.int(1, 3) }, () => expand('a {looks} {thing}', scope, random))
  const [mine, theirs] = [some(), some()]
  const asked = random.chance(0.5)
  return {
    user: `${owner} has ${joinList(mine)}. ${other} has ${joinList(theirs)}. What does ${asked ? owner : other} have?`,
    answer: `${asked ? owner : other} has ${joinList(asked ? mine : theirs)}.`,
  }
}

function doings(random: Random): Recall {
  const scope = newScope()
  const pairs = Array.from({ length: random.int(2, 4) }, () => {
    const who = expand('the {mood} {animal}', scope, random)
    return { who, does: conjugate(expand('{doing}', scope, random), 'third') }
  })
  const { who, does } = random.pick(pairs)
  const told = pairs.map((pair) => `${pair.who.replace(/^t/, 'T')} ${pair.does}.`).join(' ')
  return { user: `${told} What does ${who} do?`, answer: `${who.replace(/^t/, 'T')} ${does}.` }
}

/** A phrase to say again, or a question about what was just told. */
export function drawRecall(random: Random): Recall {
  return random.pick([echo, echo, belongings, doings])(random)
}
