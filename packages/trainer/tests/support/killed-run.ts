import { toyRL } from './rl.js'
import { resumeSetup } from './resume-setup.js'

// A process for tests to kill: trains into the folder that it is given and says which updates are finished.
const { trainer } = toyRL(resumeSetup(process.argv[2]!, process.argv[3] as Parameters<typeof resumeSetup>[1]))
for await (const { step } of trainer.updates()) {
  process.stdout.write(`update ${step}\n`)
  // Leaves time to be killed between two updates, with lines on disk that no checkpoint knows.
  if (step >= 7) await new Promise((resolve) => setTimeout(resolve, 60_000))
}
