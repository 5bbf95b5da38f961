import { words } from './words.js'

/** Verb phrases that need no object. */
const act = words(`
  dance, sing, whistle, laugh, sleep, hum, whisper, jump, dream, swim, wander, travel, climb, skip, clap, nap, giggle, wave, rest, march,
  bake, paint, read, write, fly, float, spin, twirl, juggle, tiptoe, play, cook, knit, draw, cheer, talk, hide, sneeze, yawn, smile`)

/** Longer verb phrases. */
const doing = words(`
  count the stars, bake bread, paint the sky, tell stories, play chess, water the flowers, chase the wind, read old maps, fly kites,
  feed the birds, collect shells, build sand castles, write letters, drink tea, sweep the stairs, ring the bell, light the lamps,
  mend old nets, plant seeds, watch the rain, catch falling stars, draw pictures, sing to the moon, trade secrets, wear silly hats,
  share warm soup, ride the waves, polish the silver, make new friends, dance in the rain, listen to the sea, juggle oranges, hunt for treasure,
  knit long scarves, fix broken toys, look for clouds, hide small gifts, race paper boats, climb tall trees, bake tiny cakes, guard the gate,
  whistle old songs, open every door, sleep until noon, guess riddles, carry lanterns, sail to the island, cook noodles, follow the river`)

/** Third person singular phrases of how light or weather moves. */
const moves = words(
  'drifts, glides, floats, spins, sways, rolls, dances, wanders, shimmers, turns, rises, bounces, hops, slides, swings',
)

const storykind = words(
  'bedtime story, short story, fairy tale, funny story, true story, ghost story, love story, mystery, legend, adventure story, fable, spooky story, happy story, birthday story, travel story',
)

export const actions = { act, doing, moves, storykind }
