import { defaultServerConditions } from 'vite'
import { defineProject } from 'vitest/config'

/** The vitest project of one package: sources are resolved directly, so tests need no build. */
export const project = (name: string) =>
  defineProject({
    ssr: { resolve: { conditions: ['@selfplay/source', ...defaultServerConditions] } },
    test: {
      name,
      env: { ORT_DISABLE_TELEMETRY: '1' },
      include: ['src/**/*.test.ts', 'tests/**/*.test.ts'],
      testTimeout: 60_000,
    },
  })
