/**
 * Imported by the examples: what goes wrong ends in a message (its code, what was expected, what came, what to do) and exit code
 * 1, as in the `selfplay` command, instead of a stack trace. `DEBUG=1 npm run example ...` shows the place in the code as well.
 */
import { stripControls } from 'selfplay'

process.on('uncaughtException', (error: Error & { readonly code?: unknown }) => {
  // Typed errors of selfplay and those of the system have a code; anything else is a mistake in the code, and its place helps.
  const isTyped = typeof error?.code === 'string'
  const text = isTyped && !process.env['DEBUG'] ? error.message : (error?.stack ?? String(error))
  const lines = stripControls(text).split('\n')
  const title = isTyped ? `error (${String(error.code)})` : 'unexpected error'
  process.stderr.write(`${[title, ...lines.map((line) => `  ${line}`)].join('\n')}\n`, () => process.exit(1))
})
