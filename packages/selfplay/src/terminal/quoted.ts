/** A path for a command line that can be pasted. */
export const quoted = (path: string): string => (/^[\w./:\\@+-]+$/.test(path) ? path : JSON.stringify(path))
