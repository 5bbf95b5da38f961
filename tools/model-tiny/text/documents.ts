import { answerTask, drawLength, drawTask, type Task } from './answers.js'
import { drawChat, type ChatMessage } from './chats.js'
import { drawCharacters, drawRatio, feedbackPrompt } from './feedback.js'
import { sentence, newScope } from './grammar.js'
import { createRandom, hashText, type Random } from './random.js'
import { tutorialTasks } from './tutorial.js'

/** The kinds of documents that the model learns. */
export const KINDS = ['story', 'chat', 'feedback'] as const
export type Kind = (typeof KINDS)[number]

const END_OF_TEXT = '<|endoftext|>'
const TURN_START = '<|im_start|>'
const TURN_END = '<|im_end|>'
/** Spellings of the special tokens, in the order of their ids. */
export const SPECIAL_TOKENS = [END_OF_TEXT, TURN_START, TURN_END] as const

/** One document: what is given, what the model shall write, and the token that ends it. */
export interface Document {
  readonly kind: Kind
  readonly prompt: string
  readonly completion: string
  readonly end: typeof END_OF_TEXT | typeof TURN_END
}

/** Which part of all documents: `train`, or `heldOut`, whose prompts never occur in `train`. */
export type Split = 'train' | 'heldOut'

const KIND_WEIGHTS = [50, 35, 15]
const HELD_OUT_SHARE = 1 / 25
const TUTORIAL_SHARE = 0.06

/** Whether a prompt belongs to the held-out split: a function of its text alone, so no seed can leak it into the other. */
export const isHeldOut = (prompt: string): boolean => hashText(prompt) / 2 ** 32 < HELD_OUT_SHARE

/** ChatML up to the point where the assistant is to write. */
const chatPrompt = (messages: readonly ChatMessage[]): string =>
  messages.map(({ role, content }) => `${TURN_START}${role}\n${content}${TURN_END}\n`).join('') +
  `${TURN_START}assistant\n`

const ROLES = [
  'You are a {mood} {person}. ',
  'You are the first of two writers. ',
  'You are the second of two writers. ',
  'You are the plot writer. ',
  'You are the scene writer. ',
  'Keep it short. ',
  'Answer at length. ',
]

interface Draft {
  /** What decides the split. */
  readonly key: string
  readonly document: Document
}

function drawStoryTask(random: Random, split: Split): Task {
  return split === 'train' && random.chance(TUTORIAL_SHARE) ? random.pick(tutorialTasks) : drawTask(random)
}

function draftStory(random: Random, split: Split): Draft {
  const task = drawStoryTask(random, split)
  const role = random.chance(0.04) ? sentence(random.pick(ROLES), newScope(), random) : ''
  const completion = ` ${answerTask(task, drawLength(random), random)}`
  return { key: task.prompt, document: { kind: 'story', prompt: role + task.prompt, completion, end: END_OF_TEXT } }
}

function draftFeedback(random: Random, split: Split): Draft {
  const task = drawStoryTask(random, split)
  const prompt = feedbackPrompt(task.prompt, drawCharacters(random), drawRatio(random))
  const completion = ` ${answerTask(task, drawLength(random), random)}`
  return { key: task.prompt, document: { kind: 'feedback', prompt, completion, end: END_OF_TEXT } }
}

function draftChat(random: Random): Draft {
  const { messages, answer } = drawChat(random)
  const first = messages.find(({ role }) => role === 'user')
  return {
    key: first?.content ?? '',
    document: { kind: 'chat', prompt: chatPrompt(messages), completion: answer, end: TURN_END },
  }
}

const GREETING = /^(?:Hello|Hi|Who|What can|Good|How)[^:]{0,24}$/

function belongs(draft: Draft, split: Split): boolean {
  const tutorial = tutorialTasks.some(({ prompt }) => prompt === draft.key)
  const shared = tutorial || (draft.document.kind === 'chat' && GREETING.test(draft.key)) // there are too few to hold some back
  return split === 'train' ? shared || !isHeldOut(draft.key) : !shared && isHeldOut(draft.key)
}

/**
 * Document `index` of a seed and split. The same arguments give the same document, whatever was made before.
 *
 * @param kind - only documents of this kind; default: a mix of half stories, a third chats, the rest feedback.
 */
export function documentAt(seed: number, index: number, split: Split = 'train', kind?: Kind): Document {
  const random = createRandom(seed ^ (split === 'train' ? 0 : 0x2545f491), index)
  const chosen = kind ?? (KINDS[random.weighted(KIND_WEIGHTS)] as Kind)
  for (;;) {
    const draft =
      chosen === 'chat' ? draftChat(random) : (chosen === 'story' ? draftStory : draftFeedback)(random, split)
    if (belongs(draft, split)) return draft.document
  }
}

/** A document as the tokenizer reads it, special tokens spelt out. */
export const documentText = (document: Document): string => document.prompt + document.completion + document.end

/** `count` different prompts of a kind that no training document has. */
export function unseenPrompts(kind: Kind, count: number, seed: number): Document[] {
  const found = new Map<string, Document>()
  for (let index = 0; found.size < count; index++) {
    const document = documentAt(seed, index, 'heldOut', kind)
    if (!found.has(document.prompt)) found.set(document.prompt, document)
  }
  return [...found.values()]
}
