import type { Message, Renderer } from '@selfplay/renderers'
import { JudgeError } from '../errors.js'
import { messageFrame, type ComparisonFrame } from './frame.js'
import { PREFERENCE_LABELS, type LabeledComparison } from './preference.js'

/** The place in a conversation where a judge decides. */
export interface LabelChoice {
  /** Everything before the label, int32 [P]. */
  readonly prompt: Int32Array
  /** The first token in which the answers A, B and Tie differ. */
  readonly labels: readonly [a: number, b: number, tie: number]
}

type RendererLike = Pick<Renderer, 'generationPrompt' | 'supervisedExample'>

/**
 * Finds the token that decides: answers may begin alike (an empty block of reasoning, a blank), and may go on after the
 * label; what counts is the first token that differs.
 *
 * @throws JudgeError when two labels begin with the same token there
 */
export function labelChoice(messages: readonly Message[], renderer: RendererLike): LabelChoice {
  const prompt = renderer.generationPrompt(messages)
  const answers = PREFERENCE_LABELS.map((label) =>
    renderer.supervisedExample([...messages, { role: 'assistant', content: label }]).tokens.subarray(prompt.length),
  )
  const [first = new Int32Array()] = answers
  let shared = 0
  while (shared < first.length && answers.every((answer) => answer[shared] === first[shared])) shared++
  const labels = answers.map((answer) => answer[shared])
  if (labels.includes(undefined) || new Set(labels).size !== labels.length)
    throw new JudgeError(
      `the labels ${PREFERENCE_LABELS.join(', ')} cannot be told apart by one token in this tokenizer (ids ${labels.join(', ')})`,
      { labels },
    )
  return {
    prompt: Int32Array.from([...prompt, ...first.subarray(0, shared)]),
    labels: labels as unknown as LabelChoice['labels'],
  }
}

/**
 * One training example for a judge: the comparison, then the token that decides, which alone carries loss. Tokens int32 [T],
 * weights float32 [T].
 *
 * @throws JudgeError
 */
export function comparisonExample(
  { comparison, label }: LabeledComparison,
  renderer: RendererLike,
  frame: ComparisonFrame = messageFrame,
): { readonly tokens: Int32Array; readonly weights: Float32Array } {
  const { prompt, labels } = labelChoice(frame(comparison), renderer)
  const tokens = Int32Array.from([...prompt, labels[PREFERENCE_LABELS.indexOf(label)]!])
  const weights = new Float32Array(tokens.length)
  weights[tokens.length - 1] = 1
  return { tokens, weights }
}
