import { describeTrainingCore } from '@selfplay/engine/testing'
import { ToyClient } from './support/toy-client.js'

describeTrainingCore('the toy client', { makeClient: () => Promise.resolve(new ToyClient({ seed: 3 })) })
