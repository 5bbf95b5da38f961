import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { innerPath, portableName, timeName } from './names.js'

describe('check 59: names that are legal on Windows', () => {
  it.each([
    ['org/name:tag', 'org--name-tag'],
    ['C:\\models\\x', 'C---models--x'],
    ['2026-11-29T15:30:45.123Z', '2026-11-29T15-30-45.123Z'],
    ['NUL', '_NUL'],
    ['com1.json', '_com1.json'],
    ['console', 'console'],
    ['ends. . ', 'ends'],
    ['..', '_'],
    ['', '_'],
    ['a<b>c"d|e?f*g\u0000h', 'a-b-c-d-e-f-g-h'],
    ['ünïcode 🎲', 'ünïcode 🎲'],
  ])('%j becomes %j', (text, name) => expect(portableName(text)).toBe(name))

  it('shortens with a hash, splits no code point, and keeps long names apart', () => {
    const [a, b] = [portableName(`${'🎲'.repeat(100)}a`), portableName(`${'🎲'.repeat(100)}b`)]
    for (const name of [a, b]) {
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255)
      expect(name).toMatch(/^(🎲)+-[0-9a-f]{10}$/u)
    }
    expect(a).not.toBe(b)
    expect(portableName('x'.repeat(255))).toBe('x'.repeat(255))
  })

  it('holds for any text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 400 }),
        fc.integer({ min: 16, max: 255 }),
        (text, maxBytes) => {
          const name = portableName(text, maxBytes)
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(maxBytes)
          // oxlint-disable-next-line no-control-regex
          expect(name).toMatch(/^[^<>:"/\\|?*\u0000-\u001f]*[^<>:"/\\|?*\u0000-\u001f. ]$/)
          expect(name).not.toMatch(/^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i)
          expect(portableName(text, maxBytes)).toBe(name)
        },
      ),
    )
  })

  it('writes times without colons', () => {
    expect(timeName(new Date('2026-11-29T15:30:45.678Z'))).toBe('2026-11-29T153045Z')
  })
})

describe('innerPath', () => {
  it.each(['a.safetensors', 'sub/a.safetensors', '..a'])('accepts %j', (path) =>
    expect(innerPath(path, 'index')).toBe(path),
  )

  it.each(['../a', 'a/../../b', '/etc/passwd', 'C:\\x', 'c:x', 'a\\..\\b', 'a//b', './a', '', 'a\u0000b'])(
    'refuses %j',
    (path) =>
      expect(() => innerPath(path, 'index.json')).toThrow(/index\.json: expected file names inside its own folder/),
  )
})
