import { readFileSync } from 'node:fs'
import type { KernelTables } from '../kernel-check.js'

function table(provider: string): Record<string, unknown> {
  const file = new URL(`../../../../../fixtures/kernels/${provider}_ops.json`, import.meta.url)
  return JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
}

/** The kernel tables of the fixtures. */
export function loadKernelTables(): KernelTables {
  return { cpu: table('cpu'), cuda: table('cuda'), webgpu: table('webgpu') }
}
