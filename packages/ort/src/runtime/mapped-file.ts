import { closeSync, fstatSync, openSync } from 'node:fs'
import { InvalidInputError } from '@selfplay/engine'
import type { CApi, NativeFunction, Pointer } from './c-api.js'
import { messageOf, RuntimeError } from './errors.js'

/** A file in the address space of the process: read-only, loaded page by page as it is touched, shared by all users. */
export interface Mapping {
  readonly address: Pointer
  /** Bytes. */
  readonly length: number
  release(): void
}

interface Pages {
  map(path: string, length: number): Pointer
  unmap(address: Pointer, length: number): void
  /** Gives the pages of anonymous memory back to the system; what they hold is lost. */
  discard(address: Pointer, length: number): void
}

interface Shared {
  readonly address: Pointer
  readonly length: number
  users: number
}

const PAGE = 16384

/** Maps files into memory through the C library, where node has no way to. */
export class FileMapper {
  readonly #api: CApi
  readonly #pages: Pages
  readonly #open = new Map<string, Shared>()

  constructor(api: CApi) {
    this.#api = api
    this.#pages = process.platform === 'win32' ? windowsPages(api.koffi) : posixPages(api.koffi)
  }

  /** Maps a file, once for all users. A file that was replaced since is another file. @throws InvalidInputError */
  map(path: string): Mapping {
    const { key, length } = identifyFile(path)
    const shared = this.#open.get(key) ?? { address: this.#pages.map(path, length), length, users: 0 }
    this.#open.set(key, shared)
    shared.users++
    let released = false
    const release = () => {
      if (released) return
      released = true
      if (--shared.users > 0) return
      this.#open.delete(key)
      this.#pages.unmap(shared.address, length)
    }
    return { address: shared.address, length, release }
  }

  /** Gives back the memory of a buffer that nobody reads any more, before the collector finds it. */
  reclaim(buffer: ArrayBuffer): void {
    const address = this.#api.koffi.address(buffer)
    const page = BigInt(PAGE)
    const from = ((address + page - 1n) / page) * page
    const length = Number(((address + BigInt(buffer.byteLength)) / page) * page - from)
    if (length > 0) this.#pages.discard(from, length)
  }
}

/** Tells a file from every other, also from one that stood under its name before. @throws InvalidInputError */
export function identifyFile(path: string): { key: string; length: number } {
  try {
    const file = openSync(path, 'r')
    try {
      const { dev, ino, size, mtimeMs } = fstatSync(file)
      return { key: `${dev}:${ino}:${size}:${mtimeMs}:${ino === 0 ? path : ''}`, length: size }
    } finally {
      closeSync(file)
    }
  } catch (cause) {
    throw new InvalidInputError(`cannot open the weight file ${path}: ${messageOf(cause)}`, { path })
  }
}

type Koffi = CApi['koffi']

function posixPages(koffi: Koffi): Pages {
  const libc = koffi.load(null)
  const mmap = libc.func('mmap', 'void *', ['void *', 'size_t', 'int', 'int', 'int', 'int64_t']) as NativeFunction
  const munmap = libc.func('munmap', 'int', ['void *', 'size_t']) as NativeFunction
  const madvise = libc.func('madvise', 'int', ['void *', 'size_t', 'int']) as NativeFunction
  const PROT_READ = 1
  const MAP_PRIVATE = 2
  const FAILED = 2n ** 64n - 1n
  /** MADV_DONTNEED on Linux; MADV_FREE elsewhere, where DONTNEED keeps the pages. */
  const discard = process.platform === 'linux' ? 4 : 5
  return {
    map(path, length) {
      const file = openSync(path, 'r')
      try {
        const address = BigInt.asUintN(64, mmap(null, length, PROT_READ, MAP_PRIVATE, file, 0) as bigint)
        if (address === FAILED)
          throw new RuntimeError(`cannot map ${path} into memory (errno ${koffi.errno()})`, { path })
        return address
      } finally {
        closeSync(file)
      }
    },
    unmap(address, length) {
      munmap(address, length)
    },
    discard(address, length) {
      madvise(address, length, discard)
    },
  }
}

function windowsPages(koffi: Koffi): Pages {
  const kernel = koffi.load('kernel32.dll')
  const P = 'void *'
  const U = 'uint32_t'
  const func = (name: string, result: string, args: string[]) => kernel.func(name, result, args) as NativeFunction
  const createFile = func('CreateFileW', P, ['str16', U, U, P, U, U, P])
  const createMapping = func('CreateFileMappingW', P, [P, P, U, U, U, P])
  const mapView = func('MapViewOfFile', P, [P, U, U, U, 'size_t'])
  const unmapView = func('UnmapViewOfFile', 'int', [P])
  const closeHandle = func('CloseHandle', 'int', [P])
  const discardMemory = func('DiscardVirtualMemory', U, [P, 'size_t'])
  const GENERIC_READ = 0x80000000
  const SHARE_ALL = 7
  const OPEN_EXISTING = 3
  const PAGE_READONLY = 2
  const FILE_MAP_READ = 4
  const INVALID = 2n ** 64n - 1n
  return {
    map(path) {
      const file = createFile(path, GENERIC_READ, SHARE_ALL, null, OPEN_EXISTING, 0, null) as bigint
      if (BigInt.asUintN(64, file) === INVALID) throw new RuntimeError(`cannot open ${path} to map it`, { path })
      const mapping = createMapping(file, null, PAGE_READONLY, 0, 0, null) as bigint | null
      const address = mapping ? (mapView(mapping, FILE_MAP_READ, 0, 0, 0) as bigint | null) : null
      // The view holds on to both.
      if (mapping) closeHandle(mapping)
      closeHandle(file)
      if (!address) throw new RuntimeError(`cannot map ${path} into memory`, { path })
      return address
    },
    unmap(address) {
      unmapView(address)
    },
    discard(address, length) {
      discardMemory(address, length)
    },
  }
}
