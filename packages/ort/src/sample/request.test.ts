import { ContextOverflowError, InvalidInputError } from '@selfplay/engine'
import type { SampleRequest } from '@selfplay/engine'
import { describe, expect, it } from 'vitest'
import { checkRequest } from './request.js'
import type { RequestLimits } from './request.js'

const limits: RequestLimits = { vocabSize: 100, contextLength: 10, defaultStop: [2, 'END'], canDecode: true }
const request = (over: object = {}) => ({ prompt: Int32Array.of(1, 2, 3), maxTokens: 5, ...over }) as SampleRequest

describe('checkRequest', () => {
  it('fills in the defaults', () => {
    expect(checkRequest(request(), limits)).toEqual({
      prompt: Int32Array.of(1, 2, 3),
      numSamples: 1,
      maxTokens: 5,
      temperature: 1,
      topK: 0,
      topP: 1,
      stopIds: new Set([2]),
      stopStrings: ['END'],
      seed: undefined,
    })
  })

  it('copies the prompt, cuts the length to the context, and takes an empty stop list as none', () => {
    const prompt = Int32Array.of(1, 2, 3)
    const task = checkRequest(request({ prompt, maxTokens: 50, stop: [] }), limits)
    prompt[0] = 99
    expect(task.prompt[0]).toBe(1)
    expect(task.maxTokens).toBe(7)
    expect(task.stopIds.size + task.stopStrings.length).toBe(0)
  })

  it('drops filters that filter nothing', () => {
    expect(checkRequest(request({ topK: 100 }), limits).topK).toBe(0)
    expect(checkRequest(request({ topK: 99 }), limits).topK).toBe(99)
    expect(checkRequest(request({ topK: 3, topP: 0.5, temperature: 0 }), limits)).toMatchObject({ topK: 0, topP: 1 })
  })

  it('refuses prompts that leave no room', () => {
    expect(() => checkRequest(request({ prompt: new Int32Array(10) }), limits)).toThrow(ContextOverflowError)
    expect(() => checkRequest(request({ prompt: new Int32Array(9) }), limits)).not.toThrow()
  })

  it.each([
    [{ prompt: new Int32Array(0) }, /prompt is empty/],
    [{ prompt: [1, 2] }, /Int32Array/],
    [{ prompt: Int32Array.of(1, 100) }, /prompt\[1\] is 100/],
    [{ prompt: Int32Array.of(-1) }, /prompt\[0\] is -1/],
    [{ maxTokens: 0 }, /maxTokens/],
    [{ maxTokens: 1.5 }, /maxTokens/],
    [{ numSamples: 0 }, /numSamples/],
    [{ temperature: -1 }, /temperature/],
    [{ temperature: Number.NaN }, /temperature/],
    [{ temperature: 1e-9 }, /temperature/],
    [{ topP: 0 }, /topP/],
    [{ topP: 1.1 }, /topP/],
    [{ topK: 0 }, /topK/],
    [{ stop: [100] }, /stop id 100/],
    [{ stop: [''] }, /stop/],
    [{ seed: 0.5 }, /seed/],
    [{ topk: 3 }, /unknown option "topk" \(did you mean "topK"/],
    [{ max_tokens: 3 }, /did you mean "maxTokens"/],
  ])('refuses %o', (over, message) => {
    expect(() => checkRequest(request(over), limits)).toThrow(InvalidInputError)
    expect(() => checkRequest(request(over), limits)).toThrow(message)
  })

  it('refuses stop strings where nothing can decode', () => {
    expect(() => checkRequest(request({ stop: ['x'] }), { ...limits, canDecode: false })).toThrow(/decode/)
  })
})
