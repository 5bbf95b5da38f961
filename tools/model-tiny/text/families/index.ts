import { customFamilies } from './customs.js'
import type { Family } from './family.js'
import { ideaFamilies } from './ideas.js'
import { peopleFamilies } from './people.js'
import { placeFamilies } from './places.js'
import { taleFamilies } from './tales.js'

export type { Family } from './family.js'

/** Every family of the grammar. */
export const families: readonly Family[] = [
  ...placeFamilies,
  ...customFamilies,
  ...taleFamilies,
  ...peopleFamilies,
  ...ideaFamilies,
]
