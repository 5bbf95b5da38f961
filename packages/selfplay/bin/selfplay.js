#!/usr/bin/env node
import { existsSync } from 'node:fs'

const built = new URL('../dist/cli.js', import.meta.url)
if (existsSync(built)) await import(built.href)
else {
  console.error(
    'error (not_built)\n  selfplay is not built here yet: run `npm run setup` in the root of the repository',
  )
  process.exitCode = 1
}
