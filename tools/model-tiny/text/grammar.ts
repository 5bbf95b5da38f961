import { capitalise, conjugate, fixArticles, plural, titleCase } from './english.js'
import { lexicon } from './lexicon/index.js'
import type { Random } from './random.js'

/**
 * The templates of the grammar.
 *
 * `{thing}` draws a word of the category `thing`; `{T=thing}` also binds it, and `{T}` repeats it later. Bound names start with a
 * capital, categories do not. A form may follow: `{thing:s}` plural, `{act:third}`, `{act:past}`, `{act:ing}`, `{T:title}`, `{T:cap}`.
 * `a` and `an` before a slot are corrected afterwards.
 */
const SLOT = /\{(?:([A-Z]\w*)=)?(\w+)((?::\w+)*)\}/g

const FORMS: Readonly<Record<string, (word: string) => string>> = {
  s: plural,
  third: (word) => conjugate(word, 'third'),
  past: (word) => conjugate(word, 'past'),
  ing: (word) => conjugate(word, 'ing'),
  cap: capitalise,
  title: titleCase,
}

/** What one document has bound and used so far. */
export interface Scope {
  readonly bound: Map<string, string>
  readonly used: Set<string>
}

export const newScope = (bound: Readonly<Record<string, string>> = {}): Scope => ({
  bound: new Map(Object.entries(bound)),
  used: new Set(Object.values(bound)),
})

/** A mistake in a template: an unknown category, an unbound name or an unknown form. */
export class GrammarError extends Error {
  readonly code = 'grammar'
  constructor(message: string) {
    super(message)
    this.name = 'GrammarError'
  }
}

/** One slot of a template, as written. */
export interface Slot {
  readonly binds?: string
  readonly name: string
  readonly forms: readonly string[]
}

/** The slots of a template, in order. */
export function slotsOf(template: string): Slot[] {
  return [...template.matchAll(SLOT)].map(([, binds, name = '', forms = '']) => ({
    ...(binds === undefined ? {} : { binds }),
    name,
    forms: forms.split(':').filter(Boolean),
  }))
}

const isBoundName = (name: string): boolean => /^[A-Z]/.test(name)

/** A word of the category that the document has not used yet, if there is one. */
function draw(category: string, scope: Scope, random: Random): string {
  const words = lexicon[category]
  if (!words) throw new GrammarError(`no category "${category}" in the lexicon`)
  let word = random.pick(words)
  for (let attempt = 0; attempt < 8 && scope.used.has(word); attempt++) word = random.pick(words)
  scope.used.add(word)
  return word
}

function fill(slot: Slot, scope: Scope, random: Random): string {
  let word: string | undefined
  if (isBoundName(slot.name)) {
    word = scope.bound.get(slot.name)
    if (word === undefined) throw new GrammarError(`"${slot.name}" is used before it is bound`)
  } else {
    word = draw(slot.name, scope, random)
  }
  if (slot.binds !== undefined) scope.bound.set(slot.binds, word)
  return slot.forms.reduce((text, form) => {
    const apply = FORMS[form]
    if (!apply) throw new GrammarError(`no form "${form}"`)
    return apply(text)
  }, word)
}

/** A template with its slots filled, articles corrected. Changes `scope`. */
export function expand(template: string, scope: Scope, random: Random): string {
  const text = template.replace(SLOT, (_, binds: string | undefined, name: string, forms: string) =>
    fill({ ...(binds ? { binds } : {}), name, forms: forms.split(':').filter(Boolean) }, scope, random),
  )
  return fixArticles(text)
}

/** {@link expand} with a capital at the start of each sentence. */
export function sentence(template: string, scope: Scope, random: Random): string {
  return expand(template, scope, random).replace(/(?:^|[.!?] )["'(]*\p{Ll}/gu, (start) => start.toUpperCase())
}
