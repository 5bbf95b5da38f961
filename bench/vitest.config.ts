import { mergeConfig } from 'vitest/config'
import { project } from '../vitest.base.js'

// What computes and reports the numbers, and the harness of the learning checks.
export default mergeConfig(project('bench'), {
  test: { include: ['lib/**/*.test.ts', '../scripts/verify/**/*.test.ts'] },
})
