/**
 * Switches off the telemetry that onnxruntime has on by default on Linux (a SQLite file in the cache folder and DNS
 * look-ups). It reads the variable when its library is loaded, so this must be called before. Whoever sets
 * ORT_DISABLE_TELEMETRY keeps the choice.
 */
export function disableTelemetry(): void {
  process.env['ORT_DISABLE_TELEMETRY'] ??= '1'
}
