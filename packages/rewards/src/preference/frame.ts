import type { Message } from '@selfplay/renderers'
import { mapText, visibleText } from './messages.js'
import type { Comparison } from './preference.js'

/** Writes a comparison as the conversation that a judge answers with A, B or Tie. */
export type ComparisonFrame = (comparison: Comparison) => Message[]

const heading = (name: string) => `==== ${name} ====`

/** Lines that look like a heading of the frame are quoted, so that no completion can write the verdict itself. */
const quoteHeadings = (text: string) => text.replace(/^(?=[^\S\n]*====)/gmu, '> ')
const quoted = (messages: readonly Message[]) => messages.map((message) => mapText(message, quoteHeadings))
const system = (content: string): Message => ({ role: 'system', content })

/**
 * The prompt's messages, then the completions' messages under system messages that head them. For judges that were trained
 * on it, in chat formats that take system messages anywhere.
 */
export const messageFrame: ComparisonFrame = ({ prompt, completionA, completionB }) => [
  ...quoted(prompt),
  system(heading('Completion A')),
  ...quoted(completionA),
  system(heading('Completion B')),
  ...quoted(completionB),
  system(heading('Preference')),
]

/** Everything written out in one user message that also says what is asked. For any chat format, and judges without training. */
export const transcriptFrame: ComparisonFrame = ({ prompt, completionA, completionB }) => {
  const write = (messages: readonly Message[]) =>
    messages.map((message) => `${message.role}: ${quoteHeadings(visibleText(message))}`).join('\n')
  const content = [
    'Below is a conversation and two completions of it. Which completion is better? Answer with one word: A, B or Tie.',
    `${heading('Conversation')}\n${write(prompt)}`,
    `${heading('Completion A')}\n${write(completionA)}`,
    `${heading('Completion B')}\n${write(completionB)}`,
    heading('Preference'),
  ].join('\n\n')
  return [{ role: 'user', content }]
}
