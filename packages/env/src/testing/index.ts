/** Mocks for tests of environments: no model, no files, no network. */
export { byteTokenizer } from './byte-tokenizer.js'
export { hang, mockMessageEnv } from './mock-message-env.js'
export { scriptedSampler, type Script, type ScriptedSample } from './scripted-sampler.js'
