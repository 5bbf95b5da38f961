import { words } from './words.js'

const color = words(
  'red, blue, green, golden, silver, purple, orange, yellow, white, black, pink, copper, violet, pale blue, dark green, turquoise, amber, crimson, gray, brown',
)
const looks = words(`
  tiny, huge, round, crooked, shiny, dusty, old, new, striped, spotted, soft, wooden, rusty, golden, silver, glowing, wrinkled, tall,
  hollow, broken, polished, painted, square, narrow, wide, fluffy, woolen, paper, glass, iron, velvet, invisible, folding, floating,
  singing, ancient, enormous, useful, unusual, elegant, odd, ordinary, colorful, musical, magnetic, magic, secret, upside-down`)
const mood = words(`
  happy, sleepy, brave, shy, lonely, curious, grumpy, gentle, clever, proud, patient, clumsy, cheerful, quiet, nervous, hungry, lazy,
  kind, stubborn, wise, silly, polite, honest, forgetful, friendly, restless, calm, dreamy, busy, careful, thirsty, tired, eager, elegant`)
const size = words('tiny, small, little, huge, tall, giant, enormous, short, wide')
const taste = words(
  'sweet, sour, salty, bitter, spicy, smoky, creamy, fresh, nutty, buttery, crisp, cool, warm, tangy, mild',
)
const flavor = words(
  'honey, lemon, mint, cinnamon, ginger, vanilla, chocolate, apple, cherry, caramel, rose, pepper, coconut, peach, plum, butter, orange, almond, maple, berry, thunder, moonlight, snow, smoke, starlight',
)
const softly = words(
  'softly, slowly, quietly, gently, loudly, quickly, proudly, happily, carefully, sleepily, politely, bravely, calmly, gladly, cheerfully, nervously',
)
const feeling = words(
  'joy, wonder, courage, hope, peace, pride, sorrow, surprise, laughter, calm, kindness, trust, patience, wisdom, curiosity',
)
const material = words(
  'glass, wood, stone, paper, silver, gold, brass, wool, silk, ice, clay, moonlight, bamboo, coral, bread, velvet, iron, cloud, driftwood, crystal, chocolate, old newspapers, sea shells, woven grass',
)
const sound = words(
  'hum, whisper, low whistle, soft bell, slow drum, distant song, happy buzz, gentle crackle, deep purr, tiny cough, long sigh, bright chime, rattle, squeak',
)

export const qualities = { color, looks, mood, size, taste, flavor, softly, feeling, material, sound }
