import { createHash } from 'node:crypto'

/** Markup that is safe to put into a page as it is. Only the functions of this file make it out of text. */
export interface Html {
  readonly markup: string
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/**
 * Text as HTML, for element content and quoted attributes. Control characters (other than line feed and tab) and characters
 * that reorder what is around them are shown as U+FFFD.
 */
export const escapeHtml = (text: string): string =>
  text
    // Control characters are what this is about.
    // oxlint-disable-next-line no-control-regex
    .replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd')
    .replaceAll(/[&<>"']/g, (character) => ENTITIES[character]!)

type Part = string | number | Html | readonly Html[]

const partMarkup = (part: Part): string => {
  if (typeof part === 'string') return escapeHtml(part)
  if (typeof part === 'number') return escapeHtml(String(part))
  return 'markup' in part ? part.markup : part.map(({ markup }) => markup).join('')
}

/** A piece of a page. Whatever is put in as text or number is escaped; only pieces made by this function are not. */
export const fragment = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html => ({
  markup: strings.map((text, k) => (k === 0 ? text : partMarkup(parts[k - 1]!) + text)).join(''),
})

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1a1a1a; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem } h3 { font-size: 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } th, td { padding: .1rem .6rem; text-align: right }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 1px solid #999 }
.pair { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start } svg { max-width: 100%; height: auto }
svg text { font: 12px system-ui, sans-serif; fill: #444 } .axis { stroke: #999; fill: none } .line { stroke: #2a6fbb; fill: none; stroke-width: 2 }
.dot { fill: #2a6fbb } pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f5f5f5; padding: .5rem; margin: .3rem 0; unicode-bidi: isolate }
pre.sampled { background: #eaf3ea } .note { color: #555 }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 } pre { background: #222 } pre.sampled { background: #1d2b1d }
svg text { fill: #bbb } .line { stroke: #7fb2e5 } .dot { fill: #7fb2e5 } .note { color: #aaa } }
`

const STYLE_HASH = createHash('sha256').update(STYLE, 'utf8').digest('base64')

/** A whole page without scripts, forms or anything from elsewhere; its policy forbids them too. */
export function page(title: string, body: Html): string {
  return fragment`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>${{ markup: STYLE }}</style>
</head>
<body>
${body}
</body>
</html>
`.markup
}
