/**
 * Settings whose values differ between a checkpoint and a config, in words.
 *
 * @param free names of settings that may differ
 */
export function settingDifferences(
  saved: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
  free: ReadonlySet<string>,
): string[] {
  const now = JSON.parse(JSON.stringify(current)) as Record<string, unknown>
  const names = [...new Set([...Object.keys(saved), ...Object.keys(now)])].filter((name) => !free.has(name))
  return names
    .filter((name) => JSON.stringify(saved[name]) !== JSON.stringify(now[name]))
    .map((name) => `${name} was ${JSON.stringify(saved[name])} and is ${JSON.stringify(now[name])}`)
}
