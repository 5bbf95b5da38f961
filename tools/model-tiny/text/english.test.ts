import { describe, expect, it } from 'vitest'
import { capitalise, conjugate, fixArticles, indefinite, joinList, plural, titleCase } from './english.js'
import { lexicon } from './lexicon/index.js'

describe('articles', () => {
  it.each([
    ['apple', 'an'],
    ['hour', 'an'],
    ['honest fox', 'an'],
    ['old map', 'an'],
    ['unusual door', 'an'],
    ['umbrella', 'an'],
    ['unicorn', 'a'],
    ['useful kite', 'a'],
    ['ukulele', 'a'],
    ['one-eyed cat', 'a'],
    ['house', 'a'],
    ['11 songs', 'an'],
  ])('%s takes %s', (word, article) => expect(indefinite(word)).toBe(article))

  it('corrects them in a sentence, after quotes and at its start', () => {
    expect(fixArticles('A owl saw an unicorn near a "old" house and an bear.')).toBe(
      'An owl saw a unicorn near an "old" house and a bear.',
    )
    expect(fixArticles('An fox with an honest plan')).toBe('A fox with an honest plan')
  })

  it('leaves the letters inside words alone', () => expect(fixArticles('Ana and a cat')).toBe('Ana and a cat'))
})

describe('plurals', () => {
  it.each([
    ['fox', 'foxes'],
    ['mouse', 'mice'],
    ['fairy', 'fairies'],
    ['monkey', 'monkeys'],
    ['wolf', 'wolves'],
    ['tea dragon', 'tea dragons'],
    ['ice wolf', 'ice wolves'],
    ['fisherman', 'fishermen'],
    ['sheep', 'sheep'],
    ['volcano', 'volcanoes'],
    ['brush', 'brushes'],
  ])('%s -> %s', (noun, expected) => expect(plural(noun)).toBe(expected))
})

describe('verb forms', () => {
  it.each([
    ['dance', 'dances', 'danced', 'dancing'],
    ['sing', 'sings', 'sang', 'singing'],
    ['hum', 'hums', 'hummed', 'humming'],
    ['play chess', 'plays chess', 'played chess', 'playing chess'],
    ['fly kites', 'flies kites', 'flew kites', 'flying kites'],
    ['cry', 'cries', 'cried', 'crying'],
    ['play', 'plays', 'played', 'playing'],
    ['march', 'marches', 'marched', 'marching'],
    ['tiptoe', 'tiptoes', 'tiptoed', 'tiptoeing'],
  ])('%s', (verb, third, past, ing) => {
    expect([conjugate(verb, 'third'), conjugate(verb, 'past'), conjugate(verb, 'ing')]).toEqual([third, past, ing])
  })

  it('knows the past of every verb in the lexicon that does not simply take -ed', () => {
    const verbs = new Set(
      [...(lexicon.act ?? []), ...(lexicon.doing ?? [])].map((phrase) => phrase.split(' ')[0] ?? ''),
    )
    const special = [...verbs].filter((verb) => conjugate(verb, 'past') !== verb.replace(/e?$/, 'ed')).toSorted()
    expect(special.map((verb) => conjugate(verb, 'past')).join(' ')).toBe(
      'built carried caught clapped drew drank fed flew hid hummed knitted lit made napped read rode rang sang skipped slept spun swept swam told wore wrote',
    )
  })
})

describe('lists, capitals, titles', () => {
  it('joins', () => {
    expect(joinList(['a'])).toBe('a')
    expect(joinList(['a', 'b', 'c'])).toBe('a, b and c')
  })
  it('capitalises behind a quote', () => expect(capitalise('"so it is')).toBe('"So it is'))
  it('titles', () => expect(titleCase('the fox of the north')).toBe('The Fox of the North'))
})
