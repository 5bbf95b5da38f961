/** The little morphology of English that the grammar needs: articles, plurals, verb forms, capitals. */

const table = (pairs: string): Map<string, string[]> =>
  new Map(
    pairs
      .split(';')
      .map((entry) => entry.trim().split(' '))
      .map(([base = '', ...forms]) => [base, forms]),
  )

/** Words that are spelt with a vowel but spoken with a consonant (yoo-, w-). */
const CONSONANT_SOUND = /^(?:uni(?!n|m)|us(?:e|u|a)|ut[eio]|uku|eu|ew|one(?:$|-|\b)|once)/i
/** Words that are spelt with a consonant but spoken with a vowel. */
const VOWEL_SOUND = /^(?:hour|honest|honou?r|heir|8|11(?!\d)|18(?!\d))/i

/** The indefinite article of a word. */
export function indefinite(word: string): 'a' | 'an' {
  if (VOWEL_SOUND.test(word)) return 'an'
  return /^[aeiou]/i.test(word) && !CONSONANT_SOUND.test(word) ? 'an' : 'a'
}

/** Corrects every `a` and `an` that stands before a word. */
export function fixArticles(text: string): string {
  return text.replace(/\b([Aa])n?(?= ["'(]?([\p{L}\d][\p{L}\d-]*))/gu, (_, first: string, word: string) =>
    indefinite(word) === 'an' ? `${first}n` : first,
  )
}

const PLURALS = table(
  'mouse mice; goose geese; sheep sheep; fish fish; jellyfish jellyfish; goldfish goldfish; wolf wolves; werewolf werewolves; thunderleaf thunderleaves; leaf leaves; shelf shelves; ' +
    'scarf scarves; child children; person people; snowman snowmen; fisherman fishermen; tooth teeth; foot feet; half halves; elf elves; dwarf dwarves; ' +
    'loaf loaves; potato potatoes; tomato tomatoes; volcano volcanoes; hero heroes; echo echoes; mango mangoes; reindeer reindeer; deer deer; moose moose; thief thieves; knife knives; wharf wharves; salmon salmon; superhero superheroes',
)

/** The plural of a noun or of a noun phrase whose last word is its head. */
export function plural(noun: string): string {
  const at = noun.lastIndexOf(' ') + 1
  const head = noun.slice(at)
  return noun.slice(0, at) + pluralWord(head)
}

function pluralWord(word: string): string {
  const irregular = PLURALS.get(word)?.[0]
  if (irregular) return irregular
  if (/[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}ies`
  if (/(?:s|x|z|ch|sh)$/.test(word)) return `${word}es`
  return `${word}s`
}

const VERBS = table(
  'be is was being; feed feeds fed feeding; light lights lit lighting; have has had having; do does did doing; go goes went going; sing sings sang singing; swim swims swam swimming; ' +
    'run runs ran running; fly flies flew flying; sleep sleeps slept sleeping; dream dreams dreamed dreaming; tell tells told telling; ' +
    'build builds built building; write writes wrote writing; draw draws drew drawing; drink drinks drank drinking; eat eats ate eating; ' +
    'catch catches caught catching; ride rides rode riding; hide hides hid hiding; find finds found finding; bring brings brought bringing; ' +
    'make makes made making; sit sits sat sitting; swing swings swung swinging; spin spins spun spinning; grow grows grew growing; ' +
    'speak speaks spoke speaking; steal steals stole stealing; wear wears wore wearing; win wins won winning; give gives gave giving; ' +
    'take takes took taking; lose loses lost losing; ring rings rang ringing; shine shines shone shining; rise rises rose rising; ' +
    'fall falls fell falling; sweep sweeps swept sweeping; blow blows blew blowing; read reads read reading; keep keeps kept keeping; ' +
    'wake wakes woke waking; dig digs dug digging; teach teaches taught teaching; hum hums hummed humming; hop hops hopped hopping; ' +
    'skip skips skipped skipping; clap claps clapped clapping; nap naps napped napping; trot trots trotted trotting; tap taps tapped tapping; ' +
    'jog jogs jogged jogging; chat chats chatted chatting; hug hugs hugged hugging; plan plans planned planning; grin grins grinned grinning; ' +
    'drum drums drummed drumming; slip slips slipped slipping; stop stops stopped stopping; nod nods nodded nodding; wag wags wagged wagging; ' +
    'knit knits knitted knitting; pat pats patted patting; flap flaps flapped flapping; rap raps rapped rapping; see sees saw seeing; hold holds held holding; ' +
    'buy buys bought buying; feel feels felt feeling; leave leaves left leaving; meet meets met meeting; ski skis skied skiing; lead leads led leading',
)

/** Verb forms that a template can ask for. */
export type VerbForm = 'third' | 'past' | 'ing'

/** A form of a verb phrase whose first word is the verb: `play chess` -> `plays chess`, `played chess`, `playing chess`. */
export function conjugate(phrase: string, form: VerbForm): string {
  const [verb = '', ...rest] = phrase.split(' ')
  const irregular = VERBS.get(verb)
  const index = { third: 0, past: 1, ing: 2 }[form]
  return [irregular?.[index] ?? regular(verb, form), ...rest].join(' ')
}

function regular(verb: string, form: VerbForm): string {
  const consonantY = /[^aeiou]y$/.test(verb)
  if (form === 'third') {
    if (consonantY) return `${verb.slice(0, -1)}ies`
    return /(?:s|x|z|ch|sh|o)$/.test(verb) ? `${verb}es` : `${verb}s`
  }
  if (form === 'past') {
    if (consonantY) return `${verb.slice(0, -1)}ied`
    return verb.endsWith('e') ? `${verb}d` : `${verb}ed`
  }
  return /[^eo]e$/.test(verb) ? `${verb.slice(0, -1)}ing` : `${verb}ing`
}

/** The text with its first letter in upper case. */
export function capitalise(text: string): string {
  return text.replace(/\p{L}/u, (letter) => letter.toUpperCase())
}

const SMALL_WORDS = new Set([
  'a',
  'an',
  'and',
  'the',
  'of',
  'in',
  'on',
  'at',
  'for',
  'to',
  'with',
  'by',
  'from',
  'under',
])

/** Title case: every word but articles, `and` and short prepositions; the first one always. */
export function titleCase(text: string): string {
  return text
    .split(' ')
    .map((word, index) => (index > 0 && SMALL_WORDS.has(word) ? word : capitalise(word)))
    .join(' ')
}

/** `a`, `a and b`, `a, b and c`. */
export function joinList(items: readonly string[]): string {
  if (items.length <= 1) return items.join('')
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}

/** Small numbers in words; larger ones in digits. */
export function numberWord(n: number): string {
  return ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'][n] ?? String(n)
}
