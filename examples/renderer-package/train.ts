/**
 * A training run that names the contributed format: `npm run example examples/renderer-package/train.ts` in the root.
 * Two agents learn to answer with texts of different length.
 */
import './src/index.js'
import { loadAgents, MAGRPOTrainer, user } from 'selfplay'

const agents = await loadAgents('bundled:tiny', 2, { renderer: 'acme/smol' })
const trainer = new MAGRPOTrainer({
  agents,
  trainDataset: ['Describe a city in the clouds.', 'Describe a quiet harbour.'].map((task) => ({
    prompt: [user(task)],
  })),
  rewardFunc: ({ completions: [first, second] }) =>
    first!.map((text, k) =>
      Math.min(1, Math.max(text.length, second![k]!.length) / (2 * (1 + Math.min(text.length, second![k]!.length)))),
    ),
  config: { numGenerations: 4, maxNewTokens: 24, numTrainEpochs: 1, agentLearningRate: 5e-5 },
})
for await (const update of trainer.updates())
  console.log(`update ${update.step}: mean reward ${update.rewardMean.toFixed(3)}`)
