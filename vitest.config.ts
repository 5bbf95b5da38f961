import type { Reporter } from 'vitest/node'
import { defineConfig } from 'vitest/config'

/** Prints the one line that a continuous-integration run reads. */
const tally: Reporter = {
  onTestRunEnd(modules) {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    let broken = 0
    for (const module of modules) {
      const before = count.failed
      for (const test of module.children.allTests()) count[test.result().state]++
      if (module.state() === 'failed' && count.failed === before) broken++ // a file that did not load
    }
    console.log(`tests: ${count.passed} passed, ${count.failed + broken} failed, ${count.skipped} skipped`)
  },
}

export default defineConfig({ test: { projects: ['packages/*', 'bench', 'tests'], reporters: ['default', tally] } })
