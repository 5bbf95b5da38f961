import { describe, expect, it } from 'vitest'
import { nearest } from './nearest.js'

describe('nearest', () => {
  it.each([
    ['learningRate', ['learningRateSchedule', 'agentLearningRate'], 'agentLearningRate'],
    ['agentLearningRate', ['learningRateSchedule', 'learningRate'], 'learningRate'],
    ['lr', ['loss', 'learningRate'], 'learningRate'],
    ['numSamples', ['evalNumSamples', 'numGenerations'], 'numGenerations'],
    ['max_tokens', ['maxSteps', 'maxNewTokens'], 'maxNewTokens'],
    ['epochs', ['steps', 'numTrainEpochs'], 'numTrainEpochs'],
    ['learningRat', ['learningRate', 'seed'], 'learningRate'],
    ['numSamples', ['evalNumSample'], undefined],
  ])('%s among %j is %s', (word, known, expected) => expect(nearest(word, known)).toBe(expected))
})
