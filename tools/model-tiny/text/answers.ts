import { families, type Family } from './families/index.js'
import { expand, newScope, sentence, slotsOf, type Scope } from './grammar.js'
import type { Random } from './random.js'

/** Answers keep below it, so that they stay within about 110 tokens. */
export const MAX_ANSWER_CHARACTERS = 430
/** Answers have 1 to this many sentences. */
const MAX_SENTENCES = 8

/** A prompt and everything that its answer needs to know. */
export interface Task {
  /** Ends with a colon or is a request in one sentence. */
  readonly prompt: string
  readonly family: Family
  readonly bound: Readonly<Record<string, string>>
}

const WEIGHTS = families.map((family) => family.weight)

/** The family of that name. */
export function familyNamed(name: string): Family {
  const family = families.find((candidate) => candidate.name === name)
  if (!family) throw new RangeError(`no family "${name}"; there are ${families.map((each) => each.name).join(', ')}`)
  return family
}

/** A prompt drawn from all families, or from one. */
export function drawTask(random: Random, family: Family = families[random.weighted(WEIGHTS)] as Family): Task {
  const scope = newScope()
  const prompt = sentence(random.pick(family.prompts), scope, random)
  return { prompt, family, bound: Object.fromEntries(scope.bound) }
}

/** A number of sentences, each of 1 to {@link MAX_SENTENCES} equally probable. */
export const drawLength = (random: Random): number => random.int(1, MAX_SENTENCES)

function templatesOf(family: Family, sentences: number, random: Random): string[] {
  const closing = sentences >= 3 ? 0.8 : sentences === 2 ? 0.4 : 0
  const closer = random.chance(closing) ? [random.pick(family.closers)] : []
  const middles = random.shuffle(family.middles).slice(0, sentences - 1 - closer.length)
  return [random.pick(family.openers), ...middles, ...closer]
}

/** An answer of so many sentences; fewer where it would grow beyond {@link MAX_ANSWER_CHARACTERS}. */
export function answerTask(task: Task, sentences: number, random: Random): string {
  const scope: Scope = newScope(task.bound)
  for (const { binds, name } of slotsOf(task.family.setup ?? '')) {
    if (binds !== undefined && !scope.bound.has(binds)) expand(`{${binds}=${name}}`, scope, random)
  }
  const templates = templatesOf(task.family, sentences, random)
  let text = ''
  for (const template of templates) {
    const next = sentence(template, scope, random)
    if (text.length + 1 + next.length > MAX_ANSWER_CHARACTERS) break
    text = text === '' ? next : `${text} ${next}`
  }
  return text
}
