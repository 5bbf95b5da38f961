import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { RuntimeUnavailableError } from './errors.js'

/** File names of the shared library per platform, the likeliest first. */
const LIBRARY_NAMES: Readonly<Record<string, RegExp>> = {
  linux: /^libonnxruntime\.so(\.\d+)*$/,
  darwin: /^libonnxruntime(\.\d+)*\.dylib$/,
  win32: /^onnxruntime\.dll$/i,
}

/** Root folder of the installed onnxruntime-node package. */
export function packageFolder(): string {
  return dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'))
}

/**
 * Path of the onnxruntime library that onnxruntime-node ships for a platform
 * (`bin/napi-v<n>/<platform>/<arch>/`, where n changes with its versions).
 *
 * @throws RuntimeUnavailableError listing the platforms that it ships.
 */
export function libraryPath(
  root: string = packageFolder(),
  platform: string = process.platform,
  arch: string = process.arch,
): string {
  const bin = join(root, 'bin')
  const versions = list(bin).filter((name) => name.startsWith('napi-v'))
  for (const version of versions) {
    const folder = join(bin, version, platform, arch)
    const name = list(folder).find((file) => LIBRARY_NAMES[platform]?.test(file))
    if (name !== undefined) return join(folder, name)
  }
  const shipped = versions.flatMap((version) =>
    list(join(bin, version)).flatMap((os) => list(join(bin, version, os)).map((cpu) => `${os}-${cpu}`)),
  )
  throw new RuntimeUnavailableError(
    `onnxruntime-node ships no library for ${platform}-${arch}, only for ${shipped.join(', ') || 'nothing'}`,
    { platform, arch, shipped },
  )
}

function list(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).toSorted() : []
}
