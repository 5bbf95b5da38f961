import { answerTask, drawLength, drawTask, familyNamed, type Task } from './answers.js'
import { capitalise, joinList, numberWord } from './english.js'
import { drawCharacters, drawRatio, feedbackPrompt } from './feedback.js'
import { expand, newScope, sentence } from './grammar.js'
import { drawNameLength, drawTopic, inventName } from './names.js'
import type { Random } from './random.js'
import { drawRecall } from './recall.js'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** A conversation up to the last user message, and the answer to it. */
export interface Chat {
  readonly messages: readonly ChatMessage[]
  readonly answer: string
}

/** One request with as many different answers as one likes; `scale` -1 asks for short ones, 1 for long ones, 0 for any. */
interface Exchange {
  readonly system: readonly string[]
  readonly user: string
  reply(scale: -1 | 0 | 1): string
  /** There is one right answer, so no feedback and no second try. */
  readonly once?: true
}

const GENERAL_SYSTEM = [
  'You are a helpful assistant.',
  'You are a friendly assistant who likes to write.',
  'You are {name}, made by {name}. You are a helpful assistant.',
  'You are a {mood} {person}.',
  'You are a creative writer.',
]
const NAMING_SYSTEM = [
  'You are a creative naming expert. Reply with just a name, nothing else.',
  'You are a creative naming expert. Reply with just a name, nothing else.',
  'You are a creative naming expert. Reply with just a name, nothing else.',
  'You are a naming expert. Answer with one name.',
  'You invent names. Reply with just a name.',
]
const LIST_SYSTEM = ['You write short lists.', 'You are a helpful assistant. Answer with a list.', ...GENERAL_SYSTEM]
const STORY_SYSTEM = ['You are a storyteller.', 'You tell stories to children.', ...GENERAL_SYSTEM]

const scaled = (low: number, high: number, scale: -1 | 0 | 1, random: Random): number => {
  const middle = (low + high) / 2
  return random.int(scale > 0 ? Math.ceil(middle) : low, scale < 0 ? Math.floor(middle) : high)
}

function naming(random: Random): Exchange {
  const topic = drawTopic(random)
  const request = random.pick([
    `Invent a creative name for a ${topic.text}.`,
    `Invent a creative name for a ${topic.text}.`,
    `Invent a creative name for a ${topic.text}.`,
    `Suggest a name for a ${topic.text}.`,
    `I need a name for a ${topic.text}.`,
    `What would you call a ${topic.text}?`,
    `Invent a {mood} name for a ${topic.text}.`,
  ])
  const user = sentence(request, newScope(), random)
  const length = (scale: -1 | 0 | 1) => (scale === 0 ? drawNameLength(random) : scaled(1, 10, scale, random))
  return { system: NAMING_SYSTEM, user, reply: (scale) => inventName(topic, length(scale), random) }
}

const LIST_KINDS: readonly { readonly request: string; readonly item: readonly string[] }[] = [
  {
    request: 'gifts for {folk}',
    item: ['a {looks} {thing}', 'a {color} {thing}', 'a {thing} of {material}', '{food}', 'a {flavor} {dish}'],
  },
  {
    request: 'things to find in a {place} {where}',
    item: ['a {looks} {thing}', 'a {mood} {animal}', '{color} {many}', 'a {thing}', '{food}'],
  },
  {
    request: 'things to do {where}',
    item: ['{doing}', '{doing}', '{doing} {time}', '{act} {softly}', '{act} with a {animal}'],
  },
  {
    request: 'reasons to be {mood}',
    item: ['{color} {many}', 'the {nature}', '{food}', 'a {mood} {animal}', 'good {many}'],
  },
  {
    request: 'names for a {animal}',
    item: ['{name}', '{name}', '{name} the {mood:cap}', 'Captain {thing:cap}', '{flavor:cap}'],
  },
  {
    request: 'colors for a {thing}',
    item: ['{color}', '{color}', '{color} and {color}', '{color} with {looks} edges'],
  },
  {
    request: 'animals that could {doing}',
    item: ['a {animal}', 'a {mood} {animal}', 'a {size} {animal}', 'a {color} {animal}'],
  },
  {
    request: 'ideas for a {dish} for {folk}',
    item: ['{flavor} and {flavor}', '{taste} {flavor}', 'roasted {flavor}', '{flavor} with {food}'],
  },
  { request: 'places to meet a {being}', item: ['a {place} {where}', '{spot}', 'a {looks} {place}', 'near {spot}'] },
  {
    request: 'rules for a {mood} {event}',
    item: ['be {mood}', 'bring a {thing}', 'never {doing}', '{act} {softly}', 'share your {food}'],
  },
]

function list(random: Random): Exchange {
  const kind = random.pick(LIST_KINDS)
  const scope = newScope()
  const subject = expand(kind.request, scope, random)
  const count = random.chance(0.5) ? random.int(2, 7) : undefined
  const quantity =
    count === undefined ? random.pick(['some', 'a few']) : random.chance(0.8) ? numberWord(count) : String(count)
  const user = random.pick([
    `List ${quantity} ${subject}.`,
    `Name ${quantity} ${subject}.`,
    `Give me ${quantity} ${subject}.`,
    `Can you list ${quantity} ${subject}?`,
  ])
  const numbered = random.chance(0.5)
  const reply = (scale: -1 | 0 | 1): string => {
    const n = count ?? scaled(1, 8, scale, random)
    const used = newScope({})
    const items = Array.from({ length: n }, () => expand(random.pick(kind.item), used, random))
    if (numbered) return items.map((item, i) => `${i + 1}. ${capitalise(item)}`).join('\n')
    return `${capitalise(joinList(items))}.`
  }
  return { system: LIST_SYSTEM, user, reply }
}

/** A prompt that ends with a colon as a request in a conversation. */
function asRequest(prompt: string, random: Random): string {
  const plain = `${prompt.slice(0, -1)}.`
  const lower = plain.charAt(0).toLowerCase() + plain.slice(1)
  if (/^(?:what|tell the|imagine)/i.test(plain)) return plain
  return random.pick([plain, plain, `Please ${lower}`, `Could you ${lower.slice(0, -1)}?`])
}

function story(random: Random): Exchange {
  let task: Task = drawTask(random)
  let user = asRequest(task.prompt, random)
  if (random.chance(0.4)) {
    const scope = newScope()
    user = sentence(
      random.pick([
        'Tell me a {storykind} about a {C=being}.',
        'Write a very short story about a {C=being}.',
        'Tell me a story about a {mood} {C=being}, please.',
      ]),
      scope,
      random,
    )
    task = { prompt: user, family: familyNamed('story'), bound: Object.fromEntries(scope.bound) }
  }
  const reply = (scale: -1 | 0 | 1): string =>
    answerTask(task, scale === 0 ? drawLength(random) : scaled(1, 8, scale, random), random)
  return { system: STORY_SYSTEM, user, reply }
}

const HELLO = [
  'Hello!',
  'Hi!',
  'Hello, who are you?',
  'Who are you?',
  'What can you do?',
  'Good morning!',
  'How are you?',
]
const GREETINGS = [
  'Hello! I am a tiny model that likes to write.',
  'I am a very small model. I write stories, names and lists.',
  'Hi! I feel {mood} today.',
  'Good to see you! Shall I tell you a {storykind}?',
  'I can tell you a story about a {mood} {being}.',
  'Hello! I was thinking about {many} and {food}. What shall I write?',
  'I am small, but I know many words. Ask me for a name, a list or a story about a {being}.',
]

function greeting(random: Random): Exchange {
  return {
    system: GENERAL_SYSTEM,
    user: random.pick(HELLO),
    reply: () => sentence(random.pick(GREETINGS), newScope(), random),
  }
}

function recall(random: Random): Exchange {
  const { user, answer } = drawRecall(random)
  return { system: GENERAL_SYSTEM, user, reply: () => answer, once: true }
}

const FOLLOW_UPS: readonly { readonly text: string; readonly scale: -1 | 0 | 1 }[] = [
  { text: 'Another one, please.', scale: 0 },
  { text: 'Try again.', scale: 0 },
  { text: 'Make it longer.', scale: 1 },
  { text: 'Please write a longer answer.', scale: 1 },
  { text: 'Make it shorter.', scale: -1 },
  { text: 'That is too long.', scale: -1 },
]

const EXCHANGES = [naming, list, story, greeting, recall] as const
const EXCHANGE_WEIGHTS = [34, 17, 27, 2, 20]

/** A conversation of one request (mostly) or of up to three. */
export function drawChat(random: Random): Chat {
  const exchange = (EXCHANGES[random.weighted(EXCHANGE_WEIGHTS)] ?? naming)(random)
  const messages: ChatMessage[] = []
  const naming_ = exchange.system === NAMING_SYSTEM
  if (random.chance(naming_ ? 0.75 : 0.5)) {
    messages.push({ role: 'system', content: expand(random.pick(exchange.system), newScope(), random) })
  }
  const scale = 0
  if (!exchange.once && random.chance(0.08)) {
    const user = feedbackPrompt(exchange.user, drawCharacters(random), drawRatio(random))
    return { messages: [...messages, { role: 'user', content: user }], answer: exchange.reply(scale) }
  }
  messages.push({ role: 'user', content: exchange.user })
  let answer = exchange.reply(scale)
  const turns = !exchange.once && random.chance(0.12) ? random.int(1, 2) : 0
  for (let turn = 0; turn < turns; turn++) {
    const followUp = random.pick(FOLLOW_UPS)
    messages.push({ role: 'assistant', content: answer }, { role: 'user', content: followUp.text })
    answer = exchange.reply(followUp.scale)
  }
  return { messages, answer }
}
