import { capitalise, plural, titleCase } from './english.js'
import { expand, newScope } from './grammar.js'
import type { Random } from './random.js'
import { words } from './lexicon/words.js'

/** What people want a name for, with words that belong to it. */
const THEMES: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  `coffee shop: bean, brew, cup, roast, steam; tea house: leaf, pot, cup, petal, steam; bakery: crumb, oven, loaf, flour, crust;
  bookshop: page, chapter, story, shelf, ink; flower shop: petal, bloom, rose, stem, garden; ice cream truck: scoop, cone, frost, cherry, swirl;
  pizza place: slice, crust, basil, oven, tomato; toy shop: puzzle, marble, puppet, bear, kite; bicycle shop: wheel, pedal, chain, spoke, bell;
  music school: note, chord, song, drum, string; dance studio: step, twirl, ribbon, mirror, rhythm; art gallery: canvas, brush, frame, color, line;
  hotel: pillow, key, lantern, rest, window; restaurant: fork, table, spice, plate, candle; library: page, lamp, whisper, shelf, quill;
  hair salon: curl, comb, mirror, wave, ribbon; pet shop: paw, whisker, tail, feather, fin; zoo: paw, mane, trail, feather, roar;
  space station: orbit, star, comet, beacon, moon; spaceship: comet, arrow, star, voyage, engine; sailboat: tide, anchor, sail, gull, wave;
  rock band: thunder, echo, wire, stone, riot; jazz band: velvet, note, midnight, brass, blue; choir: voice, hymn, bell, echo, dawn;
  robot: bolt, gear, spark, circuit, button; robot dog: bolt, paw, spark, gear, tail; dragon: ember, scale, flame, wing, smoke;
  cat: whisker, paw, shadow, velvet, mitten; dog: bark, paw, biscuit, tail, scout; horse: mane, hoof, meadow, storm, saddle;
  parrot: feather, echo, mango, beak, jungle; goldfish: bubble, fin, pearl, ripple, coral; hamster: nut, wheel, button, acorn, whisker;
  newspaper: ink, herald, page, morning, lantern; magazine: page, cover, letter, ink, lens; podcast: voice, wave, echo, story, signal;
  video game: quest, pixel, level, sword, dungeon; board game: dice, tile, quest, castle, card; card game: ace, deck, crown, joker, trick;
  superhero: cape, thunder, shadow, flash, mask; wizard: wand, spell, star, robe, raven; pirate ship: skull, tide, gold, storm, cannon;
  castle: tower, crown, stone, banner, gate; village: meadow, brook, mill, hill, lantern; island: palm, coral, tide, shell, cove;
  mountain: peak, cloud, eagle, stone, snow; river: reed, stone, silver, bend, otter; planet: ring, moon, dust, orbit, star;
  star: spark, night, beacon, diamond, crown; cheese: cream, cave, moon, meadow, rind; chocolate bar: cocoa, velvet, crunch, caramel, dream;
  soup: ladle, pot, steam, herb, comfort; cookie: crumb, sugar, chip, butter, jar; lemonade stand: lemon, sun, sugar, splash, straw;
  perfume: petal, mist, amber, rose, breeze; soap: bubble, foam, rain, rose, pearl; candle: wick, glow, flame, wax, ember;
  hat shop: brim, feather, ribbon, felt, crown; shoe store: lace, heel, step, sole, button; umbrella: rain, drop, cloud, canopy, storm;
  garden: seed, petal, bee, moss, ivy; treehouse: branch, ladder, leaf, nest, acorn; playground: swing, slide, jump, giggle, sand;
  school: bell, chalk, pencil, lesson, ladder; football team: goal, thunder, lion, whistle, storm; chess club: knight, rook, crown, queen, board;
  running club: sprint, lace, hill, breath, arrow; book club: page, tea, chapter, sofa, story; festival: lantern, drum, ribbon, crowd, spark;
  holiday: lantern, feast, ribbon, bell, joy; parade: drum, banner, ribbon, march, trumpet; circus: tent, ring, clown, rope, spark;
  train: rail, whistle, steam, arrow, bridge; bus: wheel, ticket, bell, corner, ride; airplane: wing, cloud, jet, sky, arrow;
  hot air balloon: basket, breeze, cloud, drift, flame; submarine: bubble, depth, whale, pearl, dive; lighthouse: beam, wave, gull, lamp, rock;
  museum: relic, frame, hall, clock, bone; theater: curtain, stage, mask, spotlight, velvet; farm: barn, hay, rooster, seed, plough;
  app: tap, spark, pixel, button, cloud; invention: gear, spark, lever, idea, bolt; new color: dusk, moss, ember, plum, mist;
  language: tongue, word, vowel, echo, ink; song: tune, moon, heart, rain, bell; poem: ink, verse, moon, hush, feather; secret club: key, owl, whisper, candle, mask`
    .split(';')
    .map((line) => line.split(':'))
    .map(([topic = '', themes = '']) => [topic.trim(), words(themes)]),
)

const TOPICS = Object.keys(THEMES)

const ADJECTIVES = words(`
  golden, silver, velvet, wandering, sleepy, happy, little, hidden, secret, wild, quiet, lucky, dancing, singing, crooked, midnight, crystal,
  copper, merry, gentle, brave, curious, flying, whispering, painted, amber, rolling, shining, humming, daring, royal, northern, endless, first, last, laughing`)
const NOUNS = words(`
  fox, owl, moon, star, lantern, river, forest, rabbit, acorn, compass, feather, garden, cloud, island, castle, mountain, whale, sparrow,
  clover, pearl, thistle, harbor, meadow, dream, wonder, story, honey, maple, willow, rainbow, firefly, button, kettle, ladder, mirror`)
const SUFFIXES = words(
  'haven, nook, works, land, wood, light, song, berry, drop, spark, bloom, field, side, dash, joy, craft, ville, loom, wing',
)
const HOUSES = words(
  'house, corner, company, club, collective, room, society, studio, garden, parlor, workshop, nest, palace, harbor, world',
)

/** A topic such as `coffee shop`, and the words that belong to it. */
export interface Topic {
  readonly text: string
  readonly themes: readonly string[]
}

/** One of several thousand topics; `base` fixes the kind of thing. */
export function drawTopic(random: Random, base: string = random.pick(TOPICS)): Topic {
  const themes = THEMES[base]
  if (!themes) throw new RangeError(`no topic "${base}"`)
  const pattern = random.pick([
    '',
    '',
    '{mood} ',
    '{size} ',
    ' for {folk}',
    ' {where}',
    '{color} ',
    '{mood} ',
    ' for {mood} {person:s}',
  ])
  const scope = newScope()
  const text = pattern.startsWith('{') ? `${pattern}${base}` : `${base}${pattern}`
  return { text: expand(text, scope, random), themes }
}

interface Parts {
  readonly adjective: () => string
  readonly noun: () => string
  readonly theme: () => string
}

function partsFor(topic: Topic, random: Random): Parts {
  const fresh = (list: readonly string[]): (() => string) => {
    const left = random.shuffle(list)
    return () => left.pop() ?? random.pick(list)
  }
  const theme = fresh(topic.themes)
  const general = fresh(NOUNS)
  return { adjective: fresh(ADJECTIVES), theme, noun: () => (random.chance(0.5) ? theme() : general()) }
}

/** Name patterns by their number of words; each uses at least one word that belongs to the topic. */
const PATTERNS: readonly ((parts: Parts, random: Random) => string)[][] = [
  [({ theme }, random) => `${theme()}${random.pick(SUFFIXES)}`, ({ theme }) => plural(theme())],
  [
    ({ adjective, theme }) => `${adjective()} ${theme()}`,
    ({ theme }) => `the ${theme()}`,
    ({ noun, theme }, random) => `${noun()} ${theme()}${random.pick(SUFFIXES)}`,
  ],
  [
    ({ adjective, theme }) => `the ${adjective()} ${theme()}`,
    ({ noun, theme }) => `${theme()} and ${noun()}`,
    ({ adjective, theme }, random) => `${adjective()} ${theme()} ${random.pick(HOUSES)}`,
  ],
  [
    ({ adjective, theme }, random) => `the ${adjective()} ${theme()} ${random.pick(HOUSES)}`,
    ({ adjective, theme }, random) => `${random.pick(HOUSES)} of ${adjective()} ${plural(theme())}`,
    ({ noun, theme }) => `${plural(theme())} of the ${noun()}`,
  ],
  [
    ({ noun, theme }) => `the ${theme()} and the ${noun()}`,
    ({ adjective, noun, theme }) => `the ${adjective()} ${theme()} of ${plural(noun())}`,
    ({ noun, theme }, random) => `where ${plural(theme())} meet ${random.pick(ADJECTIVES)} ${plural(noun())}`,
  ],
  [
    ({ adjective, noun, theme }) => `the ${adjective()} ${theme()} of the ${noun()}`,
    ({ adjective, noun, theme }) => `the ${theme()} and the ${adjective()} ${noun()}`,
  ],
  [
    ({ adjective, noun, theme }) => `the ${adjective()} ${theme()} and the ${adjective()} ${noun()}`,
    ({ adjective, noun, theme }) => `the ${adjective()} ${theme()} of the ${adjective()} ${noun()}`,
  ],
  [
    ({ adjective, noun, theme }, random) =>
      `the ${adjective()} ${theme()} ${random.pick(HOUSES)} of ${adjective()} ${plural(noun())}`,
    ({ adjective, noun, theme }) => `${theme()} and ${noun()}: the ${noun()} of ${adjective()} ${plural(noun())}`,
  ],
]

/** A name of about `length` words (1 to 12; one word more than an article or `and` may count) for the topic, in title case. */
export function inventName(topic: Topic, length: number, random: Random): string {
  const parts = partsFor(topic, random)
  const main = Math.min(length, PATTERNS.length)
  const pattern = random.pick(PATTERNS[main - 1] as (typeof PATTERNS)[number])
  let name = titleCase(pattern(parts, random))
  if (length > PATTERNS.length && !name.includes(':')) {
    const tail = `where ${parts.adjective()} ${plural(parts.noun())} ${random.pick(['dream', 'dance', 'sing', 'rest', 'meet', 'shine', 'grow'])}`
    name = `${name}: ${capitalise(titleCase(tail))}`
  }
  return name
}

/** A number of words, each of 1 to 10 equally probable. */
export const drawNameLength = (random: Random): number => random.int(1, 10)
