import { words } from './words.js'

const place = words(`
  city, village, town, castle, library, market, garden, harbor, school, museum, bakery, theater, lighthouse, train station,
  inn, tower, palace, farm, kingdom, forest, hotel, restaurant, cottage, island, temple, toy shop, bookshop, post office, tea house,
  zoo, circus, hospital, factory, workshop, prison, gallery, ballroom, monastery, observatory, greenhouse, airport, cafe,
  beach, valley, meadow, maze, cave, mine, orchard, park, neighborhood, fortress, camp, playground, concert hall, swimming pool`)

const buildable = words(`
  playground, house, school, garden, park, castle, library, museum, hotel, restaurant, bakery, theater, bridge, tower, train,
  boat, bus, bicycle, robot, kitchen, bedroom, bathtub, treehouse, tent, zoo, farm, swimming pool, slide, swing, maze, fountain, market,
  hospital, gym, cafe, bookshop, airport, train station, spaceship, submarine, lighthouse, toy, hat, jacket, chair, bed,
  elevator, clock, kite, racing car, skate park, concert hall, observatory, greenhouse, post office, campsite, roller coaster, birdhouse`)

const where = words(`
  in the clouds, under the sea, on the moon, on Mars, inside a volcano, behind a waterfall, at the edge of the world, under the ice,
  in a glass jar, on the back of a turtle, in the middle of a desert, on top of a mountain, inside a whale, at the bottom of a lake,
  in a giant tree, between two rivers, on a frozen lake, under a rainbow, in a quiet forest, on a tiny island, in a hollow hill,
  beside the northern sea, on a flying carpet, inside a clock, in a teacup, under a bed, on Jupiter, on the rings of Saturn,
  at the end of a rainbow, in a snow globe, below the city, above the storm, in the jungle, on a long bridge, in an old attic,
  inside a mirror, in a painting, on a sleepy star, in the land of giants, in a sunken ship, at the North Pole, on a wandering hill,
  in a deep canyon, on a silver beach, inside a music box, behind the moon, on a comet, in a hidden valley, on a floating rock,
  in a field of mushrooms, under the old oak, on the roof of a school, in the year three thousand, in a land of shadows, on Venus,
  inside a pyramid, in a bottle, on a train, in a dream, at the mouth of a cave, in the fog, on a spider web, near a sleeping dragon`)

const realm = words('world, city, planet, village, country, school, kingdom, house, town, land, forest, castle')

/** What a realm may lack. Each reads well after "without". */
const lack = words(`
  electricity, mirrors, clocks, music, money, shoes, rain, wheels, colors, books, doors, windows, shadows, bread, tea, coffee,
  winter, night, sleep, names, numbers, words, letters, maps, roads, bridges, birds, trees, bees, cats, chairs, beds, spoons, buttons, hats,
  umbrellas, phones, computers, telephones, cars, trains, boats, paper, pencils, paint, salt, sugar, cheese, chocolate, soap,
  laughter, secrets, dreams, stars, wind, snow, gravity, fire, glass, plastic, gold, schools, rules, games, toys, walls, stairs,
  calendars, mornings, mondays, homework, jokes, friends, pockets, pillows, candles, bells, songs, dances, stories`).map(
  (word) => (word === 'mondays' ? 'Mondays' : word),
)

const season = words('spring, summer, autumn, winter')
const time = words(
  'at night, at dawn, at noon, in the morning, in the evening, after dark, at sunset, before breakfast, on rainy days, all day long, on quiet Sundays, at midnight, in spring, in summer, in winter, in autumn',
)
const spot = words(`
  the old bridge, the harbor, the village square, the tall gate, the round window, the quiet pond, the market, the bakery, the hill,
  the river, the stone wall, the wooden door, the clock tower, the garden, the pier, the forest, the library, the well, the lighthouse,
  the orchard, the narrow street, the kitchen, the attic, the train station, the fountain, the meadow, the cave, the shore`)

export const places = { place, buildable, where, realm, lack, season, time, spot }
