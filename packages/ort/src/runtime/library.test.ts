import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { SLOTS } from './c-api.js'
import { libraryPath, packageFolder } from './library.js'
import { disableTelemetry } from './telemetry.js'

const root = mkdtempSync(join(tmpdir(), 'selfplay-library-'))
afterAll(() => rmSync(root, { recursive: true }))

function ship(...path: string[]): string {
  const file = join(root, 'bin', 'napi-v6', ...path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, '')
  return file
}

test('the library is found under the name that each platform gives it', () => {
  for (const arch of ['x64', 'arm64']) {
    ship('linux', arch, 'onnxruntime_binding.node')
    ship('win32', arch, 'DirectML.dll')
    const linux = ship('linux', arch, 'libonnxruntime.so.1')
    expect(libraryPath(root, 'linux', arch)).toBe(linux)
    const windows = ship('win32', arch, 'onnxruntime.dll')
    expect(libraryPath(root, 'win32', arch)).toBe(windows)
  }
  const mac = ship('darwin', 'arm64', 'libonnxruntime.1.30.0.dylib')
  expect(libraryPath(root, 'darwin', 'arm64')).toBe(mac)
})

test('a platform without one is an error that lists those with one', () => {
  ship('linux', 'x64', 'libonnxruntime.so.1')
  expect(() => libraryPath(root, 'freebsd', 'x64')).toThrow(/ships no library for freebsd-x64, only for .*linux-x64/)
})

test('the installed package has the library for this machine', () => {
  expect(libraryPath().startsWith(packageFolder())).toBe(true)
})

test("our slots are those of onnxruntime's table", () => {
  const names = JSON.parse(
    readFileSync(new URL('../../../../fixtures/ort-c-api.json', import.meta.url), 'utf8'),
  ) as string[]
  for (const [name, slot] of Object.entries(SLOTS)) expect([name, slot]).toEqual([name, names.indexOf(name)])
})

test('telemetry is off unless the user chose', () => {
  const before = process.env['ORT_DISABLE_TELEMETRY']
  try {
    delete process.env['ORT_DISABLE_TELEMETRY']
    disableTelemetry()
    expect(process.env['ORT_DISABLE_TELEMETRY']).toBe('1')
    process.env['ORT_DISABLE_TELEMETRY'] = '0'
    disableTelemetry()
    expect(process.env['ORT_DISABLE_TELEMETRY']).toBe('0')
  } finally {
    process.env['ORT_DISABLE_TELEMETRY'] = before
  }
})
