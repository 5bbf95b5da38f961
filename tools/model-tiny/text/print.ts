import { documentAt, documentText, KINDS } from './documents.js'

// `npx tsx tools/model-tiny/text/print.ts [count] [seed]`: documents of each kind, to read.
const [count = 5, seed = 0] = process.argv.slice(2).map(Number)
for (const kind of KINDS) {
  console.log(`\n=== ${kind}`)
  for (let index = 0; index < count; index++) console.log(`${documentText(documentAt(seed, index, 'train', kind))}\n`)
}
