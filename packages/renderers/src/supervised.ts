import { InvalidMessagesError } from './errors.js'
import type { LaidOutSpan, Layout } from './layout.js'
import type { Message } from './messages.js'
import { TRAIN_ON_WHAT, type SupervisedExample, type SupervisedOptions, type TrainOnWhat } from './renderer.js'
import { didYouMean } from './nearest.js'
import { onlyKeys } from './options.js'

/** The messages that a mode trains. @throws InvalidMessagesError when the mode does not fit the conversation */
function trainedMessages(messages: readonly Message[], mode: TrainOnWhat): Set<number> {
  const indices = (chosen: (message: Message, index: number) => boolean) =>
    new Set(messages.flatMap((message, index) => (chosen(message, index) ? [index] : [])))
  const flagged = messages.findIndex((message) => message.trainable !== undefined)
  if (mode !== 'customized' && flagged >= 0)
    throw new InvalidMessagesError(`messages.${flagged}.trainable is only for trainOn: 'customized', got '${mode}'`)
  const lastUser = messages.findLastIndex(({ role }) => role === 'user')
  const nothing = (expected: string): never => {
    throw new InvalidMessagesError(`trainOn: '${mode}' expected ${expected}; there would be nothing to train`, { mode })
  }
  switch (mode) {
    case 'last_assistant_message':
      if (messages.at(-1)?.role !== 'assistant') nothing('the last message to be the assistant’s')
      return new Set([messages.length - 1])
    case 'last_assistant_turn': {
      const turn = indices(({ role }, index) => role === 'assistant' && index > lastUser)
      return turn.size > 0 ? turn : nothing('an assistant message after the last user message')
    }
    case 'all_assistant_messages': {
      const all = indices(({ role }) => role === 'assistant')
      return all.size > 0 ? all : nothing('an assistant message')
    }
    case 'all_user_and_system_messages':
      return indices(({ role }) => role === 'user' || role === 'system')
    case 'all_messages':
    case 'all_tokens':
      return indices(() => true)
    case 'customized': {
      const missing = messages.findIndex((message) => message.trainable === undefined)
      if (missing >= 0)
        throw new InvalidMessagesError(`messages.${missing}.trainable: trainOn 'customized' needs it in every message`)
      return indices((message) => message.trainable === true)
    }
  }
}

function checkMode(mode: string): asserts mode is TrainOnWhat {
  if ((TRAIN_ON_WHAT as readonly string[]).includes(mode)) return
  throw new InvalidMessagesError(
    `trainOn: no mode ${JSON.stringify(mode)}${didYouMean(mode, TRAIN_ON_WHAT, '; ') || '.'} There are ${TRAIN_ON_WHAT.join(', ')}`,
  )
}

/** One example of a conversation. See `Renderer.supervisedExample`. */
export function supervisedExample<O>(
  layout: Layout<O>,
  messages: readonly Message[],
  options: SupervisedOptions = {},
): SupervisedExample {
  onlyKeys('supervisedExample', options, ['tools', 'trainOn'])
  const mode = options.trainOn ?? 'last_assistant_message'
  checkMode(mode)
  const conversation = layout.conversation(messages, options.tools ?? [], false)
  const trained = trainedMessages(messages, mode)
  const spans = layout.spans(conversation, false)
  const { ids, ends } = layout.vocabulary.encode(spans, true)
  const weights = new Float32Array(ids.length)
  spans.forEach((span, k) => {
    if (isTrained(span, trained, mode)) weights.fill(1, k === 0 ? 0 : ends[k - 1], ends[k])
  })
  return { tokens: Int32Array.from(ids), weights }
}

function isTrained(span: LaidOutSpan, trained: ReadonlySet<number>, mode: TrainOnWhat): boolean {
  if (span.kind === 'bos') return false
  if (mode === 'all_tokens') return true
  return (span.kind === 'body' || span.kind === 'stop') && trained.has(span.message)
}

/** Examples that train each chosen message after its own prompt. See `Renderer.supervisedExamples`. */
export function supervisedExamples<O>(
  layout: Layout<O>,
  messages: readonly Message[],
  options: SupervisedOptions = {},
): SupervisedExample[] {
  onlyKeys('supervisedExamples', options, ['tools', 'trainOn'])
  const mode = options.trainOn ?? 'last_assistant_turn'
  checkMode(mode)
  if (!['last_assistant_message', 'last_assistant_turn', 'all_assistant_messages'].includes(mode))
    throw new InvalidMessagesError(
      `supervisedExamples trains assistant messages: expected trainOn to be one of the three assistant modes, got '${mode}'; use supervisedExample`,
      { mode },
    )
  const examples: SupervisedExample[] = []
  for (const index of [...trainedMessages(messages, mode)].sort((a, b) => a - b)) {
    const next = supervisedExample(layout, messages.slice(0, index + 1), {
      ...(options.tools ? { tools: options.tools } : {}),
      trainOn: 'last_assistant_message',
    })
    const last = examples.at(-1)
    if (last && isPrefix(last.tokens, next.tokens)) {
      last.weights.forEach((weight, k) => {
        if (weight > 0) next.weights[k] = weight
      })
      examples[examples.length - 1] = next
    } else examples.push(next)
  }
  return examples
}

/** Whether `long` begins with `short`. */
export function isPrefix(short: ArrayLike<number>, long: ArrayLike<number>): boolean {
  if (short.length > long.length) return false
  for (let k = 0; k < short.length; k++) if (short[k] !== long[k]) return false
  return true
}
