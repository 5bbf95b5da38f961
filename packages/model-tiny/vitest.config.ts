import { mergeConfig } from 'vitest/config'
import { project } from '../../vitest.base.js'

// The scripts that make the model are tested here, next to what they make.
export default mergeConfig(project('model-tiny'), {
  test: { include: ['../../tools/model-tiny/**/*.test.ts'] },
})
