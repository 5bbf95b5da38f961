import type koffi from 'koffi'
import { isMainThread } from 'node:worker_threads'

/**
 * Switches off the telemetry that onnxruntime has on by default on Linux (a SQLite file in the cache folder and DNS
 * look-ups). It reads the variable when its library is loaded, so this must be called before. Whoever sets
 * ORT_DISABLE_TELEMETRY keeps the choice.
 */
export function disableTelemetry(): void {
  process.env['ORT_DISABLE_TELEMETRY'] ??= '1'
}

type Koffi = typeof koffi

/**
 * The same for a worker thread, whose `process.env` is a copy that C code does not see. (Only the Linux library has the
 * variable.)
 */
export function disableTelemetryInThread(koffi: Koffi): void {
  const value = process.env['ORT_DISABLE_TELEMETRY']
  if (isMainThread || process.platform !== 'linux' || value === undefined) return
  koffi.load(null).func('int setenv(const char *name, const char *value, int overwrite)')(
    'ORT_DISABLE_TELEMETRY',
    value,
    1,
  )
}
