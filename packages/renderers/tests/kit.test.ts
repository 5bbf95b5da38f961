import { describeRenderer } from '../src/testing/index.js'
import { fixtureOptions } from './fixture.js'
import { allFormats, standInTokenizer } from './formats.js'

for (const format of allFormats)
  describeRenderer(format, { tokenizer: standInTokenizer(format), options: fixtureOptions(format.name) })
