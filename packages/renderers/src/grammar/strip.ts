// The characters that Python's `str.strip` takes away, which are what published templates mean by `trim`. JavaScript's
// own `trim` leaves U+001C to U+001F and U+0085 alone and takes U+FEFF.
const BLANKS = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+'
const EDGES = new RegExp(`^${BLANKS}|${BLANKS}$`, 'g')

/** Text without white space at both ends, as Python and therefore published chat templates define it. */
export const stripPython = (value: string): string => value.replace(EDGES, '')
