import type { CApi, NativeFunction } from './c-api.js'

const M_TRIM_THRESHOLD = -1
const M_MMAP_THRESHOLD = -3
const LARGE = 4 * 2 ** 20

let settled = false

/**
 * Has glibc give freed blocks of 4 MiB and more back to the system at once. By default it learns from what is freed to
 * keep blocks of up to 32 MiB, and so keeps as much again as a model's weights after a second session has packed them
 * (measured: 64 MiB of weights in blocks of 16 MiB, 126 MiB held, 61 MiB with this). The settings of whoever sets
 * MALLOC_MMAP_THRESHOLD_ stand.
 */
export function settleAllocator(koffi: CApi['koffi']): void {
  if (settled || process.platform !== 'linux' || process.env['MALLOC_MMAP_THRESHOLD_'] !== undefined) return
  settled = true
  const libc = koffi.load(null)
  let mallopt: NativeFunction
  try {
    mallopt = libc.func('mallopt', 'int', ['int', 'int']) as NativeFunction
  } catch {
    return // another C library, which has no such habit
  }
  mallopt(M_MMAP_THRESHOLD, LARGE)
  mallopt(M_TRIM_THRESHOLD, 2 * LARGE)
}
