import { lockRun } from '../../src/run/lock.js'

// A process for tests: takes the folder that it is given, says so, and ends by itself (`exit`) or waits to be killed.
await lockRun(process.argv[2]!)
process.stdout.write('locked\n')
if (process.argv[3] === 'exit') process.exit(3)
if (process.argv[3] === 'throw') throw new Error('on purpose')
setInterval(() => {}, 1000)
