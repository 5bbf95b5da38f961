import { mergeConfig } from 'vitest/config'
import { project } from '../../vitest.base.js'

// The example of a contributed package runs the kit in its own tests; they belong to what the kit promises.
export default mergeConfig(project('renderers'), {
  test: { include: ['../../examples/renderer-package/src/**/*.test.ts'] },
})
