import { describe, expect, it } from 'vitest'
import { families } from './families/index.js'
import { expand, GrammarError, newScope, sentence, slotsOf } from './grammar.js'
import { lexicon } from './lexicon/index.js'
import { createRandom } from './random.js'

const FORMS = new Set(['s', 'third', 'past', 'ing', 'cap', 'title'])

const isBound = (name: string): boolean => /^[A-Z]/.test(name)

describe('expand', () => {
  it('binds, repeats and inflects', () => {
    const text = expand('{A=animal} and {A}, two {A:s}', newScope(), createRandom(1))
    const [, animal, again] = /^(.+) and (.+), two /.exec(text) ?? []
    expect(lexicon.animal).toContain(animal)
    expect(again).toBe(animal)
  })

  it('corrects articles after filling', () => {
    expect(expand('a {C} and an {D}', newScope({ C: 'owl', D: 'unicorn' }), createRandom(0))).toBe(
      'an owl and a unicorn',
    )
  })

  it('starts sentences with capitals but not what follows a quotation', () => {
    expect(sentence('"where is it?" asked the fox. "here."', newScope(), createRandom(0))).toBe(
      '"Where is it?" asked the fox. "Here."',
    )
  })

  it('prefers words that were not used yet', () => {
    const text = expand('{season} {season} {season} {season}', newScope(), createRandom(4))
    expect(new Set(text.split(' ')).size).toBeGreaterThanOrEqual(3)
  })

  it.each([
    ['{nonsense}', /no category "nonsense"/],
    ['{X}', /before it is bound/],
    ['{animal:plural}', /no form "plural"/],
  ])('refuses %s', (template, message) => {
    expect(() => expand(template, newScope(), createRandom(0))).toThrow(GrammarError)
    expect(() => expand(template, newScope(), createRandom(0))).toThrow(message)
  })
})

describe.each(families.map((family) => [family.name, family] as const))('family %s', (_, family) => {
  const answers = [...family.openers, ...family.middles, ...family.closers]
  const templates = [...family.prompts, family.setup ?? '', ...answers]

  it('uses known categories and forms', () => {
    const slots = templates.flatMap(slotsOf)
    const categories = slots.map(({ name }) => name).filter((name) => !isBound(name))
    expect(categories.filter((name) => !(name in lexicon))).toEqual([])
    expect(slots.flatMap(({ forms }) => forms).filter((form) => !FORMS.has(form))).toEqual([])
  })

  it('binds in every prompt whatever its answers use', () => {
    const used = [...new Set(answers.flatMap(slotsOf).map(({ name }) => name))].filter(isBound)
    const unbound = family.prompts.flatMap((prompt) => {
      const bound = new Set([...slotsOf(prompt), ...slotsOf(family.setup ?? '')].map(({ binds }) => binds))
      return used.filter((name) => !bound.has(name)).map((name) => `${prompt} ${name}`)
    })
    expect(unbound).toEqual([])
  })

  it('has enough sentences for the longest answer, all finished, none twice', () => {
    expect(family.middles.length).toBeGreaterThanOrEqual(12)
    expect(family.openers.length).toBeGreaterThanOrEqual(6)
    expect(family.closers.length).toBeGreaterThanOrEqual(5)
    expect(new Set(answers).size).toBe(answers.length)
    for (const template of answers) expect(template).toMatch(/[.!?]"?$/)
    for (const prompt of family.prompts) expect(prompt).toMatch(/:$/)
  })
})

describe('lexicon', () => {
  it.each(Object.entries(lexicon))('%s has no word twice and no stray white space', (_, words) => {
    expect(words.length).toBeGreaterThanOrEqual(4)
    expect(new Set(words).size).toBe(words.length)
    for (const word of words) expect(word).toMatch(/^[A-Za-z][A-Za-z -]*[a-z]$/)
  })
})
