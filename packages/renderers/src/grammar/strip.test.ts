import { expect, it } from 'vitest'
import { stripPython } from './strip.js'

it('takes away what Python calls white space, and nothing else', () => {
  expect(stripPython(' \t\n\u001c\u0085\u00a0\u2003\u3000a b\u2028\r\n')).toBe('a b')
  expect(stripPython('\ufeffa\u200b')).toBe('\ufeffa\u200b')
  expect(stripPython(' \n ')).toBe('')
})
