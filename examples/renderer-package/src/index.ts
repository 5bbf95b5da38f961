import { registerRenderer } from '@selfplay/renderers'
import { smol } from './smol.js'

// Importing the package makes the format known by its name.
registerRenderer(smol)

export { smol }
