import { defineConfig } from 'vitest/config'

export default defineConfig({ test: { name: 'renderer-package', include: ['src/**/*.test.ts'] } })
