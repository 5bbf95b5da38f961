import { UnsupportedPatternError } from '../errors.js'
import type { Assertion, ParsedPattern, PatternNode } from './parse.js'

/** A step of the machine. `split` prefers `first`. */
export type Instruction =
  | { readonly op: 'character'; readonly matches: (character: string) => boolean }
  | { readonly op: 'assert'; readonly kind: Assertion }
  | { readonly op: 'save'; readonly slot: number }
  | { readonly op: 'split'; first: number; second: number }
  | { readonly op: 'jump'; to: number }
  | { readonly op: 'match' }

/** Time is proportional to the length of the program; counted repetitions are written out. */
const MAX_INSTRUCTIONS = 2000

/** @throws UnsupportedPatternError when the program would be too long */
export function compile({ root }: ParsedPattern, flags: string): Instruction[] {
  const program: Instruction[] = []
  const atoms = new Map<string, (character: string) => boolean>()
  const put = (instruction: Instruction): number => {
    if (program.length >= MAX_INSTRUCTIONS)
      throw new UnsupportedPatternError(
        `the pattern takes more than ${MAX_INSTRUCTIONS} steps; repeat less often, or check lengths in code`,
      )
    return program.push(instruction) - 1
  }
  const emit = (node: PatternNode): void => {
    switch (node.type) {
      case 'atom': {
        const matches = atoms.get(node.source) ?? oneCharacter(node.source, flags)
        atoms.set(node.source, matches)
        put({ op: 'character', matches })
        return
      }
      case 'assert':
        put({ op: 'assert', kind: node.kind })
        return
      case 'sequence':
        node.of.forEach(emit)
        return
      case 'group':
        put({ op: 'save', slot: 2 * node.index })
        emit(node.of)
        put({ op: 'save', slot: 2 * node.index + 1 })
        return
      case 'choice':
        emitChoice(node.of)
        return
      case 'repeat':
        emitRepeat(node)
    }
  }
  const emitChoice = (of: readonly PatternNode[]): void => {
    const jumps: { to: number }[] = []
    of.forEach((option, k) => {
      if (k === of.length - 1) return emit(option)
      const split = { op: 'split' as const, first: 0, second: 0 }
      split.first = put(split) + 1
      emit(option)
      const jump = { op: 'jump' as const, to: 0 }
      put(jump)
      jumps.push(jump)
      split.second = program.length
    })
    for (const jump of jumps) jump.to = program.length
  }
  const emitRepeat = ({ min, max, lazy, of }: Extract<PatternNode, { type: 'repeat' }>): void => {
    for (let k = 0; k < min; k++) emit(of)
    const optional = () => {
      const split = { op: 'split' as const, first: 0, second: 0 }
      const at = put(split)
      emit(of)
      return (after: number) => {
        split.first = lazy ? after : at + 1
        split.second = lazy ? at + 1 : after
      }
    }
    if (max === Infinity) {
      const start = program.length
      const close = optional()
      put({ op: 'jump', to: start })
      close(program.length)
      return
    }
    const closes = []
    for (let k = min; k < max; k++) closes.push(optional())
    for (const close of closes) close(program.length)
  }
  emit(root)
  put({ op: 'match' })
  return program
}

/** Whether one code point matches an atom: asked of the built-in engine, which has nothing to go back over there. */
export function oneCharacter(source: string, flags: string): (character: string) => boolean {
  const pattern = new RegExp(`^(?:${source})$`, `u${flags.replace(/[^is]/g, '')}`)
  const known = new Map<string, boolean>()
  return (character) => {
    let result = known.get(character)
    if (result === undefined) {
      result = pattern.test(character)
      if (known.size < 1024) known.set(character, result)
    }
    return result
  }
}
