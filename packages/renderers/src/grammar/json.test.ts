import fc from 'fast-check'
import { expect, it } from 'vitest'
import { pythonJson, rawMembers, sortedKeys } from './json.js'

it('rawMembers finds the text of each member, whatever the blanks', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(fc.string(), fc.json()), { selector: ([key]) => key, maxLength: 6 }),
      fc.constantFrom('', ' ', '\n\t '),
      (members, blank) => {
        const written = members.map(([key, value]) => `${blank}${JSON.stringify(key)}${blank}:${blank}${value}${blank}`)
        const raw = rawMembers(`{${written.join(',')}${members.length === 0 ? blank : ''}}`)
        expect([...raw].map(([key, value]) => [key, value.trim()])).toEqual(
          members.map(([key, value]) => [key, value.trim()]),
        )
      },
    ),
    { seed: 3 },
  )
})

it('rawMembers keeps numbers and blanks as they stand', () => {
  expect([...rawMembers('{"a": 1.0, "b": [1,  {"c": "}"}], "d": 1e20}')]).toEqual([
    ['a', '1.0'],
    ['b', '[1,  {"c": "}"}]'],
    ['d', '1e20'],
  ])
})

it('pythonJson prints as Python does', () => {
  expect(pythonJson({ a: [1, 'é', null], b: {}, c: [] })).toBe('{"a": [1, "é", null], "b": {}, "c": []}')
  expect(pythonJson({ a: [1], b: { c: true } }, 4)).toBe(
    '{\n    "a": [\n        1\n    ],\n    "b": {\n        "c": true\n    }\n}',
  )
})

it('sortedKeys sorts all the way down and leaves lists alone', () => {
  expect(JSON.stringify(sortedKeys({ b: [{ d: 1, c: 2 }], a: 0 }))).toBe('{"a":0,"b":[{"c":2,"d":1}]}')
})
