import { beings } from './beings.js'
import { actions } from './actions.js'
import { qualities } from './qualities.js'
import { things } from './things.js'
import { places } from './places.js'

/** Every category of words. A word is in base form: singular nouns, bare verbs. */
export const lexicon: Readonly<Record<string, readonly string[]>> = {
  ...beings,
  ...actions,
  ...qualities,
  ...things,
  ...places,
}
