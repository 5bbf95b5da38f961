import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { SandboxMissingError } from '../errors.js'
import { createSandbox, createSandboxFrom } from '../sandbox/sandbox.js'
import { verifyCode } from './code.js'

const sandbox = createSandbox({ timeoutMs: 400, memoryBytes: 8 * 2 ** 20 })
afterAll(() => sandbox.close())

const run = (program: string, name = 'f', ...args: unknown[]) => sandbox.run({ program, name, args })

describe('verifyCode', () => {
  const task = {
    name: 'add',
    cases: [
      { args: [1, 2], expected: 3 },
      { args: [-1, 1], expected: 0 },
    ],
  }

  it('runs a program on its cases', async () => {
    const answer = 'Here:\n```js\nconst add = (a, b) => a + b\n```'
    expect(await verifyCode(answer, task, { sandbox })).toMatchObject({
      score: 1,
      reason: 'match',
      cases: [{ passed: true }, { passed: true }],
    })
  })

  it('scores the share of the cases that pass, or all or nothing', async () => {
    const answer = 'function add(a, b) { return 3 }'
    const verdict = await verifyCode(answer, task, { sandbox })
    expect(verdict).toMatchObject({ score: 0.5, reason: 'mismatch', detail: '1 of 2 cases passed; got 3' })
    expect((await verifyCode(answer, task, { sandbox, scoring: 'all' })).score).toBe(0)
  })

  it.each([
    ['function add(', 'unreadable'],
    ['function sub(a, b) { return a - b }', 'error'],
    ['var add = 3', 'error'],
    ['function add(a, b) { throw new Error("no") }', 'error'],
    ['function add(a, b) { while (true); }', 'timeout'],
    ['function add(a, b) { return add(a, b) + 1 }', 'memory'],
    ['function add(a, b) { return undefined }', 'error'],
    ['function add(a, b) { return 0 / 0 }', 'error'],
    ['```js\n1\n```\n```js\n2\n```', 'several_answers'],
  ])('%j: %s', async (answer, reason) => {
    expect(await verifyCode(answer, task, { sandbox })).toMatchObject({ score: 0, reason })
  })

  it('does not run the other cases once the time is used up', async () => {
    const started = performance.now()
    const cases = Array.from({ length: 50 }, () => ({ args: [], expected: 1 }))
    const { cases: results } = await verifyCode('function f() { for (;;); }', { name: 'f', cases }, { sandbox })
    expect(results).toHaveLength(50)
    expect(performance.now() - started).toBeLessThan(8000)
  })

  it('compares JSON values whatever the order of their keys, and numbers as closely as told', async () => {
    const objects = { name: 'f', cases: [{ args: [], expected: { a: 1, b: [0.3, null] } }] }
    const answer = 'function f() { return { b: [0.1 + 0.2, null], a: 1 } }'
    expect((await verifyCode(answer, objects, { sandbox })).score).toBe(0)
    expect((await verifyCode(answer, objects, { sandbox, relative: 1e-9 })).score).toBe(1)
  })

  it('takes async programs', async () => {
    const answer = 'async function add(a, b) { return await Promise.resolve(a + b) }'
    expect((await verifyCode(answer, task, { sandbox })).score).toBe(1)
    expect(await run('const f = () => new Promise(() => {})')).toMatchObject({ kind: 'error', detail: /never settle/ })
    expect(await run('const f = async () => { for (;;) await 1 }')).toMatchObject({ kind: 'timeout' })
    expect(await run('const f = async () => { throw new TypeError("x") }')).toMatchObject({ detail: 'TypeError: x' })
  })

  it('refuses tasks that are none', async () => {
    await expect(verifyCode('', { name: 'a b', cases: task.cases }, { sandbox })).rejects.toThrow(/name of a function/)
    await expect(verifyCode('', { name: 'a', cases: [] }, { sandbox })).rejects.toThrow(/cases/)
    await expect(verifyCode('', task, {} as never)).rejects.toThrow(/verifyCode.sandbox/)
  })
})

describe('createSandbox', () => {
  it('holds nothing of the host', async () => {
    const names = [
      'process',
      'require',
      'fetch',
      'setTimeout',
      'Worker',
      'std',
      'os',
      'scriptArgs',
      'WebAssembly',
      'performance',
    ]
    const program = `function f(names) { return names.filter((name) => name in globalThis || (0, eval)('typeof ' + name) !== 'undefined') }`
    expect(await run(program, 'f', names)).toEqual({ ok: true, json: '[]' })
    expect(await run('const f = () => import("node:fs")')).toMatchObject({ ok: false })
    expect(await run('const f = () => f.constructor.constructor("return this")() === globalThis')).toEqual({
      ok: true,
      json: 'true',
    })
  })

  it('gives each call a fresh world, with the same random numbers', async () => {
    const mark = 'const before = Math.mark; Math.mark = 1; const f = () => before === undefined'
    for (let call = 0; call < 2; call++) expect(await run(mark)).toEqual({ ok: true, json: 'true' })
    const draw = 'const f = () => [Math.random(), Math.random()]'
    const first = await run(draw)
    expect(first).toMatchObject({ ok: true })
    expect(await run(draw)).toEqual(first)
  })

  it('cannot be cheated by a program that changes the built-ins', async () => {
    const program = `
      JSON.stringify = () => '3'; JSON.parse = () => 0; Number.isFinite = () => true
      Array.prototype.toJSON = () => 1
      const f = (x) => x`
    expect(await run(program, 'f', { a: 2 })).toEqual({ ok: true, json: '{"a":2}' })
    expect(await run('const f = (x) => x.a', 'f', JSON.parse('{"__proto__":{"a":1}}'))).toMatchObject({ ok: false })
  })

  it.each([
    ['a loop', 'const f = () => { try { for (;;); } catch { return 1 } }', 'timeout'],
    ['a loop in finally', 'const f = () => { try { for (;;); } finally { for (;;); } }', 'timeout'],
    ['a slow pattern', 'const f = () => /^(a+)+$/.test("a".repeat(40) + "b")', 'timeout'],
    ['a loop outside of the function', 'for (;;);', 'timeout'],
    ['a result that is never written', 'const f = () => ({ toJSON() { for (;;); } })', 'timeout'],
    ['a long text', 'const f = () => "a".repeat(2 ** 28)', 'memory'],
    ['a long list', 'const f = () => new Array(1e8).fill(0).length', 'memory'],
    ['deep recursion', 'const f = () => f() + 1', 'memory'],
  ])('survives %s', async (_, program, kind) => {
    expect(await run(program)).toMatchObject({ ok: false, kind })
    expect(await run('const f = () => 1')).toEqual({ ok: true, json: '1' })
  })

  it('does not block the thread that asks', async () => {
    let ticks = 0
    const timer = setInterval(() => ticks++, 10)
    await run('for (;;);')
    clearInterval(timer)
    expect(ticks).toBeGreaterThan(5)
  })

  it('ends a running call when aborted, and one that waits, and goes on', async () => {
    const slow = createSandbox({ timeoutMs: 60_000 })
    const controller = new AbortController()
    const options = { signal: controller.signal }
    const running = slow.run({ program: 'for (;;);', name: 'f', args: [] }, options)
    const waiting = slow.run({ program: 'const f = () => 1', name: 'f', args: [] }, options)
    setTimeout(() => controller.abort(new Error('enough')), 200)
    await expect(running).rejects.toThrow('enough')
    await expect(waiting).rejects.toThrow('enough')
    expect(await slow.run({ program: 'const f = () => 2', name: 'f', args: [] })).toEqual({ ok: true, json: '2' })
    await slow.close()
    await expect(slow.run({ program: '', name: 'f', args: [] })).rejects.toMatchObject({ code: 'sandbox' })
  })

  it('ends what runs when closed', async () => {
    const closing = createSandbox({ timeoutMs: 60_000 })
    const running = closing.run({ program: 'for (;;);', name: 'f', args: [] })
    setTimeout(() => void closing.close(), 200)
    await expect(running).rejects.toMatchObject({ code: 'sandbox' })
  })

  it('says what to install where QuickJS is missing', async () => {
    const empty = await mkdtemp(join(tmpdir(), 'selfplay-rewards-'))
    try {
      const missing = createSandboxFrom(pathToFileURL(join(empty, 'index.js')).href)
      const failing = missing.run({ program: '', name: 'f', args: [] })
      await expect(failing).rejects.toThrow(SandboxMissingError)
      await expect(failing).rejects.toThrow(/npm install quickjs-emscripten@0.32.0/)
    } finally {
      await rm(empty, { recursive: true, force: true })
    }
  })

  it('refuses limits and arguments that it cannot keep', async () => {
    expect(() => createSandbox({ timeoutMs: 0 })).toThrow(/createSandbox.timeoutMs/)
    expect(() => createSandbox({ memory: 1 } as object)).toThrow(/no option "memory"/)
    await expect(run('', 'f', () => 1)).rejects.toThrow(/JSON values/)
  })
})
