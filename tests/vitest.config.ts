import { defaultServerConditions } from 'vite'
import { defineProject } from 'vitest/config'

export default defineProject({
  ssr: { resolve: { conditions: ['@selfplay/source', ...defaultServerConditions] } },
  test: {
    name: 'house',
    env: { ORT_DISABLE_TELEMETRY: '1' },
    include: ['*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 600_000,
  },
})
