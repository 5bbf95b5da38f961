import { describe, expect, it } from 'vitest'
import * as engine from '@selfplay/engine'
import * as env from '@selfplay/env'
import * as renderers from '@selfplay/renderers'
import * as rewards from '@selfplay/rewards'
import * as trainer from '../src/index.js'

const { SelfplayError } = engine
const errorsOf = (exports: object) =>
  Object.entries(exports).filter(([name, value]) => name.endsWith('Error') && typeof value === 'function') as [
    string,
    typeof Error,
  ][]

describe('instanceof SelfplayError', () => {
  it.each(Object.entries({ engine, env, renderers, rewards, trainer }))('holds for every error of %s', (_, exports) => {
    const errors = errorsOf(exports)
    expect(errors.length).toBeGreaterThan(3)
    for (const [name, { prototype }] of errors)
      expect([name, Object.create(prototype) instanceof SelfplayError]).toEqual([name, true])
  })

  it('holds for nothing else, and its subclasses are told apart as ever', () => {
    for (const other of [new Error('x'), null, undefined, 'x', { code: 'x', details: {} }])
      expect(other instanceof SelfplayError).toBe(false)
    const error = new trainer.ConfigError('x')
    expect(error instanceof trainer.ConfigError).toBe(true)
    expect(error instanceof trainer.DatasetError).toBe(false)
    expect(new env.EnvInputError('x') instanceof trainer.ConfigError).toBe(false)
    expect(new env.EnvInputError('x') instanceof renderers.TypedError).toBe(true)
  })
})
