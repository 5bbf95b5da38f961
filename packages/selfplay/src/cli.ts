import { main } from './command/main.js'

// A reader that goes away (`selfplay train ... | head`) does not end a run.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

const code = await main(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signals: process,
  cwd: () => process.cwd(),
  exit: (exitCode) => process.exit(exitCode),
})
// Pipes are written in the background on some systems: leave when all is out, whatever else is still open.
process.stderr.write('', () => process.stdout.write('', () => process.exit(code)))
