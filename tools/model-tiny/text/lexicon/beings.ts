import { words } from './words.js'

const animal = words(`
  fox, owl, otter, bear, cat, dog, rabbit, hedgehog, penguin, turtle, whale, dolphin, parrot, crow, mouse, squirrel, wolf, deer,
  goat, sheep, duck, goose, frog, snail, bee, butterfly, spider, camel, elephant, lion, tiger, monkey, zebra, giraffe, koala,
  kangaroo, panda, badger, beaver, pony, donkey, cow, chicken, rooster, swan, seal, octopus, crab, lobster, jellyfish, moth,
  firefly, ant, raccoon, moose, llama, flamingo, pelican, lizard, gecko, dinosaur, goldfish, hamster, pigeon, sparrow, robin`)

const creature = words(`
  dragon, unicorn, robot, ghost, giant, troll, goblin, elf, dwarf, mermaid, phoenix, griffin, yeti, snowman, scarecrow,
  fairy, gnome, genie, monster, sea serpent, sprite, cyclops, kraken, mummy, vampire, werewolf, gargoyle, ogre, pixie,
  cloud whale, moon rabbit, sand cat, star fox, clockwork bird, paper tiger, stone giant, ice wolf, tea dragon, robot dog, ghost cat`)

const person = words(`
  baker, teacher, farmer, sailor, gardener, painter, clockmaker, librarian, doctor, pilot, fisherman, singer, dancer, king,
  queen, prince, princess, knight, wizard, witch, pirate, detective, inventor, astronaut, captain, shepherd, tailor, carpenter,
  mail carrier, musician, poet, chef, explorer, scientist, student, neighbor, traveler, magician, juggler, mayor, toymaker,
  beekeeper, lighthouse keeper, map maker, star gazer, firefighter, nurse, plumber, barber, potter, weaver, blacksmith`)

const hero = words(`
  superhero, wizard, pirate, detective, inventor, knight, astronaut, robot, explorer, captain, witch, villain, spy,
  magician, time traveler, treasure hunter, chef, gardener, librarian, scientist, pilot, sailor, dragon tamer, storm rider,
  cloud shepherd, dream keeper, puzzle master, night guard, sky painter, river guide, monster doctor, ghost hunter`)

const talker = words(`
  moon, sun, river, mountain, sea, wind, forest, clock, teapot, mirror, lamp, chair, piano, statue, bridge, tree, star,
  kite, toaster, umbrella, lantern, kettle, map, book, door, carpet, violin, drum, bell, shadow, snowman, scarecrow, lighthouse,
  train, boat, bicycle, pillow, pumpkin, mushroom, cactus, rose, cloud, thunderstorm, compass, candle, broom, spoon, suitcase,
  fridge, elevator, pencil, camera, telephone, radio, cheese, sandwich, pancake, potato, volcano, robot, dragon, owl, cat, whale`)

const name = words(`
  Mira, Otto, Luna, Felix, Nora, Hugo, Ivy, Oscar, Pip, Juno, Milo, Ada, Finn, Rosa, Theo, Wren, Leo, Clara, Max, Zoe, Ned,
  Alma, Basil, Cleo, Dora, Elio, Fern, Gus, Hazel, Iris, Jasper, Kit, Lena, Moss, Nell, Opal, Percy, Quinn, Ruby, Sam, Tilly,
  Una, Vera, Walt, Yara, Zeke, Bruno, Maple, Pepper, Biscuit, Button, Clover, Dusty, Ember, Pebble, Sunny, Willow, Olive, Rufus, Tomas`)

/** Plural: whom something is made for. */
const folk = words(`
  cats, dogs, children, robots, dragons, owls, penguins, sailors, farmers, bakers, poets, giants, ghosts, elves, pirates,
  teachers, astronauts, bears, mice, rabbits, turtles, bees, wizards, witches, knights, musicians, painters, gardeners, inventors,
  librarians, explorers, neighbors, grandparents, travelers, students, twins, monsters, mermaids, snowmen, trolls, gnomes, fairies,
  foxes, elephants, frogs, whales, night owls, early birds, dreamers, beginners, sleepy people, busy parents, lost socks, tired heroes,
  shy singers, happy cooks, quiet readers, lazy cats, tiny people, friendly aliens, brave mice, old friends`)

export const beings = { animal, creature, being: [...animal, ...creature], person, hero, talker, name, folk }
