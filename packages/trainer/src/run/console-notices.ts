import type { RunNotice } from './loop-session.js'

/**
 * What tells notices where nobody listens: a line each on stderr. Warnings always, what is merely good to know once per code.
 * Control characters of what a message quotes are left out.
 */
export function consoleNotices(): (notice: RunNotice) => void {
  const told = new Set<string>()
  return ({ code, level, message }) => {
    if (level === 'info' && told.has(code)) return
    told.add(code)
    console.warn(`${level === 'warning' ? 'warning' : 'note'}: ${message.replaceAll(/\p{Cc}+/gu, ' ')}`)
  }
}
