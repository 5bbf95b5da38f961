import { InvalidInputError } from '@selfplay/engine'
import { afterEach, expect, test, vi } from 'vitest'
import { createRuntime, describeMachine, RuntimeUnavailableError } from './index.js'

afterEach(() => {
  vi.unstubAllEnvs()
  vi.doUnmock('koffi')
  vi.resetModules()
})

test('the kind is native, or what the environment or the caller says', async () => {
  const kindOf = async (options?: Parameters<typeof createRuntime>[0]) => {
    const runtime = await createRuntime(options)
    await runtime.dispose()
    return runtime.kind
  }
  vi.stubEnv('SELFPLAY_RUNTIME', undefined)
  expect(await kindOf()).toBe('native')
  vi.stubEnv('SELFPLAY_RUNTIME', 'binding')
  expect(await kindOf()).toBe('binding')
  expect(await kindOf({ kind: 'native' })).toBe('native')
  vi.stubEnv('SELFPLAY_RUNTIME', 'web')
  await expect(createRuntime()).rejects.toThrow('SELFPLAY_RUNTIME must be "native" or "binding", got "web"')
})

test('what cannot be had is an error that says what can', async () => {
  await expect(createRuntime({ provider: 'cuda' })).rejects.toThrow(RuntimeUnavailableError)
  await expect(createRuntime({ provider: 'cuda' })).rejects.toThrow('provider "cuda" is not available, only cpu')
  await expect(createRuntime({ thread: 1 } as never)).rejects.toThrow(
    'unknown option "thread" (did you mean "threads"?)',
  )
  await expect(createRuntime({ threads: 1.5 })).rejects.toThrow(InvalidInputError)
  await expect(createRuntime({ kind: 'web' as never })).rejects.toThrow('kind must be "native" or "binding"')
})

test('where koffi cannot be loaded the binding steps in and says why', async () => {
  vi.stubEnv('SELFPLAY_RUNTIME', undefined)
  vi.resetModules()
  vi.doMock('koffi', () => ({
    default: {
      load() {
        throw new Error('no prebuilt binary for this machine')
      },
    },
  }))
  const fresh = await import('./index.js')
  const runtime = await fresh.createRuntime()
  expect(runtime.kind).toBe('binding')
  expect(runtime.fallbackReason).toMatch(/cannot call .*onnxruntime.* through koffi: no prebuilt binary/)
  await runtime.dispose()
  await expect(fresh.createRuntime({ kind: 'native' })).rejects.toMatchObject({ code: 'runtime_unavailable' })
  expect((await fresh.describeMachine()).runtime).toMatchObject({ kind: 'binding', fallbackReason: /no prebuilt/ })
})

test('describeMachine tells what there is', async () => {
  const native = await describeMachine({ kind: 'native' })
  expect(native).toMatchObject({ node: process.version, platform: `${process.platform}-${process.arch}` })
  expect(native.cores).toBeGreaterThan(0)
  expect(native.memory.total).toBeGreaterThan(native.memory.free)
  expect(native.runtime).toMatchObject({
    kind: 'native',
    version: expect.stringMatching(/^1\.30\./),
    threads: native.cores,
  })
  expect(native.providers).toContain('CPUExecutionProvider')
  const binding = await describeMachine({ kind: 'binding' })
  expect(binding.providers).toContain('cpu')
  expect((await describeMachine({ provider: 'webgpu' })).runtime).toEqual({
    error: expect.stringContaining('"webgpu" is not available'),
  })
})
