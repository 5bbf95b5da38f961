import { ConfigError } from '../errors.js'
import { describeValue } from './prompts.js'
import type { Completion, JointAnswer, JointNode, Prompt, PromptRow } from './types.js'

/**
 * One policy that writes the answers of all roles (centralised MAGRPO). Rewards, transitions and formatters see the roles as
 * if they were agents; the policy sees one prompt and writes one text.
 */
export interface CentralizedAdapter<Row> {
  readonly numRoles: number
  /** One prompt that asks for the answers of all roles; `prompts` is what each role would be shown, [role]. */
  readonly buildPrompt: (args: {
    readonly row: Row
    readonly prompts: readonly Prompt[]
    readonly turn: number
  }) => Prompt
  /**
   * The answers in a completion, one per role. When it throws or finds another number of them, every role's answer is empty,
   * so that the reward can mark it down; `turn_k/split_failures` is the share of such completions.
   */
  readonly parseCompletion: (args: {
    readonly text: string
    readonly row: Row
    readonly numRoles: number
  }) => readonly string[]
}

/** What the roles of a node were shown and answered, where one policy speaks for all. */
export interface RoleView {
  /** [role]. */
  readonly prompts: readonly string[]
  /** [role][k]. */
  readonly texts: readonly (readonly string[])[]
  /** Completions that could not be split. */
  readonly failures: number
}

/** Splits the completions of a node among the roles. */
export function splitRoles<Row extends PromptRow>(
  prompts: readonly string[],
  completions: readonly Completion[],
  row: Row,
  { numRoles, parseCompletion }: CentralizedAdapter<Row>,
): RoleView {
  let failures = 0
  const answers = completions.map(({ text }) => {
    try {
      const parts: unknown = parseCompletion({ text, row, numRoles })
      if (Array.isArray(parts) && parts.length === numRoles && parts.every((part) => typeof part === 'string')) {
        return parts as string[]
      }
    } catch {
      // What the policy wrote is data: a text that cannot be split is an answer that deserves a low reward, not an error.
    }
    failures++
    return Array.from({ length: numRoles }, () => '')
  })
  return { prompts, texts: prompts.map((_, role) => answers.map((parts) => parts[role]!)), failures }
}

/** The prompts that callbacks see, one per agent or role. */
export const shownPrompts = (node: JointNode): readonly string[] =>
  node.roles?.prompts ?? node.prompts.map(({ text }) => text)

/** The texts of a joint answer, one per agent or role. */
export const answerTexts = (node: JointNode, { generations }: Pick<JointAnswer, 'generations'>): string[] =>
  node.roles
    ? node.roles.texts.map((texts) => texts[generations[0]!]!)
    : generations.map((k, agent) => node.completions[agent]![k]!.text)

/** @throws ConfigError when the adapter does not fit the agents. */
export function checkAdapter({ numRoles }: { readonly numRoles: number }, agents: number): void {
  if (agents !== 1) {
    throw new ConfigError(
      `centralized: one policy writes all roles' answers, expected exactly one agent, got ${agents}`,
      {
        expected: 1,
        got: agents,
      },
    )
  }
  if (!Number.isInteger(numRoles) || numRoles < 1) {
    throw new ConfigError(`centralized.numRoles: expected a positive integer, got ${describeValue(numRoles)}`)
  }
}
