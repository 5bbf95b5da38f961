import { describe, expect, it } from 'vitest'
import { checkMemory, NotRunError } from './measure.js'

describe('memory that a case needs', () => {
  it('must be available', () => {
    expect(() => checkMemory({ needsMemory: 20 * 2 ** 30 }, 7.5 * 2 ** 30)).toThrow(NotRunError)
    expect(() => checkMemory({ needsMemory: 20 * 2 ** 30 }, 7.5 * 2 ** 30)).toThrow(
      'it needs 20.0 GiB of memory, and 7.5 GiB are available',
    )
    expect(() => checkMemory({ needsMemory: 20 * 2 ** 30 }, 20 * 2 ** 30)).not.toThrow()
    expect(() => checkMemory({}, 0)).not.toThrow()
  })
})
