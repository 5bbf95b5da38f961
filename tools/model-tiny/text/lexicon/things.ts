import { words } from './words.js'

const thing = words(`
  lantern, teapot, kettle, umbrella, ladder, mirror, clock, key, map, compass, candle, book, letter, kite, drum, violin, piano, flute,
  bell, hat, scarf, coat, boot, glove, button, spoon, plate, cup, bowl, basket, blanket, pillow, chair, table, lamp, broom, bucket,
  rope, wheel, coin, ring, crown, feather, shell, pebble, stone, leaf, acorn, flower, mushroom, pumpkin, jar, box, bottle, suitcase,
  telescope, camera, pencil, paintbrush, balloon, bicycle, boat, anchor, net, whistle, puppet, doll, mask, flag, rug, window, door,
  ticket, postcard, stamp, magnet, puzzle, snow globe, music box, magic wand, crystal, seed, nest, egg, orange, apple, ukulele, hourglass`)

/** Plural: what lies about, grows or floats in a scene. */
const many = words(`
  lanterns, clouds, stars, books, bells, ladders, ribbons, flowers, mushrooms, shells, feathers, kites, balloons, candles, clocks, windows,
  stairs, bridges, fountains, statues, boats, birds, fireflies, butterflies, bees, fish, cats, pancakes, apples, pumpkins, crystals,
  mirrors, umbrellas, pillows, letters, maps, toys, drums, songs, stories, secrets, whispers, rivers, gardens, towers, paths, tunnels`)

const food = words(`
  soup, bread, cake, pie, porridge, jam, honey, cheese, stew, salad, pancakes, noodles, dumplings, cookies, ice cream, toast, fried rice,
  apple pie, candied plums, popcorn, rice pudding, waffles, muffins, onion soup, roasted nuts, pumpkin bread, berry jam, warm chestnuts`)

const dish = words(
  'soup, cake, pie, stew, salad, bread, pudding, tea, sandwich, pancake, omelet, pizza, cookie, smoothie, jam, dumpling, muffin, lemonade, ice cream, porridge, noodle bowl, fruit punch',
)

/** Dishes that can go without an article. */
const course = words(
  'soup, cake, pie, stew, salad, bread, pudding, tea, jam, lemonade, ice cream, porridge, pizza, punch, gravy, chowder, curry, toast, fudge',
)

const category = words(`
  fruit, vegetable, flower, tree, tea, cheese, bread, candy, soup, dance, game, sport, hat, shoe, umbrella, chair, bed, bicycle, boat,
  train, clock, lamp, pencil, pet, bird, fish, insect, dinosaur, musical instrument, drum, toy, puzzle, kite, backpack, pillow, blanket,
  weather, color, planet, robot, telephone, door, ladder, spoon, cup, ice cream, cake, sandwich, spice, berry, mushroom, cactus, vehicle,
  machine, book, letter, coin, stone, cloud, school, holiday cake, sock, button, song, language, alphabet, calendar, sweater, balloon`)

const coin = words(`
  zumble, glimmet, pompilo, lunalo, brindle, quorra, fizzet, tamboo, wollop, mirabee, snorkin, plumeo, dazzlet, oobie, umbrick, velloon,
  pindrop, ruffalo, sunnel, tindle, marvoo, kiffle, jollop, whimble, bloomet, crispa, driftel, emberoo, flutterbee, gobbin, hushel, icklet,
  jumba, lillow, moonlet, nimbo, opalo, pebbik, quillow, rimble, starrow, twillet, urbin, wibbit, yondle, zephyr bell, honeyplum,
  cloudberry drop, thunderleaf, silverpip, dreamroot, starpear, moonplum, glowfig, singing pear, velvet melon, sparkle bean, night cherry`)

/** Singular noun phrases with their article: what could be explained. */
const tech = words(`
  teleportation, time travel, invisibility, a flying carpet, a weather machine, a talking mirror, a dream recorder, a shrinking ray,
  a robot chef, an underwater train, a cloud elevator, a memory box, a magic wand, a crystal ball, a self-tying shoe, a singing clock,
  a homework machine, a moon bridge, a thought radio, a sleep machine, a rain switch, a laughter engine, an invisible umbrella,
  a pocket volcano, a sun lamp, a star map, a gravity button, a truth teapot, a mind reader, a wish machine, a time telephone,
  a snow oven, an animal translator, a color mixer, a jumping boot, a floating island, a silent alarm, a sky train, a shadow printer,
  a pancake robot, an instant bridge, a growing potion, a walking house, a message bird, a wind sail, an echo box, an ocean elevator,
  a music garden, a secret door, a talking map, a space ladder, magic, a rainbow, an echo, a shooting star, a dragon heater, a ghost filter`)

const nature = words(
  'moon, star, river, mountain, sea, forest, cloud, storm, rainbow, sunrise, snow, desert, garden, island, meadow, waterfall, wind, rain, night sky, autumn leaf, spring morning, winter night, summer evening, old tree, quiet lake',
)

const event = words(
  'holiday, festival, sport, game, dance, parade, contest, ceremony, tradition, race, feast, school day, birthday custom, market day, concert, picnic',
)

const power = words(`
  a unique power, three shadows, a secret garden, a magic umbrella, no fear of the dark, a talking hat, boots of thunder, a pocket full of stars,
  a voice like the sea, a map of every dream, an invisible dog, a very long scarf, a heart of glass, wings of paper, a silver tongue,
  the power of sleep, the strength of ten bears, a coat of many doors, a clockwork arm, an endless lunch box, eyes like lanterns,
  a broken compass, a pet cloud, a flying bathtub, perfect memory, a magnetic smile, a musical sword, a secret twin, a hidden past,
  a fear of spoons, a love of cheese, two left feet, a jar of lightning, a whistle that stops rain, a pencil that never lies`)

/** Problems, as a relative clause wants them: "a fox who ...". */
const problem = words(`
  cannot sleep, is afraid of the dark, lost a hat, wants to fly, misses home, has no friends yet, is late for school, cannot swim,
  snores too loudly, forgot a birthday, is tired of rain, wants to sing, is learning to cook, broke a window, has cold feet,
  cannot stop laughing, is lost in a city, found a treasure, wants to be taller, is afraid of mice, eats too much cake,
  is moving to a new town, has a big test, lives next to a volcano, talks too fast, is shy at parties, wants a quiet life, sleeps all day`)

export const things = { thing, many, food, dish, course, category, coin, tech, nature, event, power, problem }
