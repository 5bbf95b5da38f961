import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { qwen3Files, qwen3Tokenizer } from '../tests/formats.js'
import { TokenizerError } from './errors.js'
import { getTokenizer } from './get-tokenizer.js'
import { createTokenizer } from './tokenizer.js'

/** A tiny byte-pair vocabulary whose control token also stands in the model itself and is reachable by merges. */
const leaky = {
  model: {
    type: 'BPE',
    vocab: { a: 0, '<': 1, '>': 2, '<a': 3, '<a>': 4, ' ': 5, aa: 6 },
    merges: ['< a', '<a >', 'a a'],
  },
  added_tokens: [
    { id: 4, content: '<a>', special: true },
    { id: 6, content: 'aa', special: false },
    { id: 7, content: '</s>', special: true },
  ],
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: { type: 'Fuse' },
}

describe('createTokenizer', () => {
  const { json, config } = qwen3Files()
  const whole = new HuggingFaceTokenizer(json as object, config)

  it('encodes text without markers as the library does', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
        fc.pre(text !== '' && !/<[|/\w]/.test(text))
        expect(qwen3Tokenizer().encode(text)).toEqual(whole.encode(text, { add_special_tokens: false }).ids)
      }),
      { numRuns: 150, seed: 5 },
    )
  })

  it('decodes as the library does, and nothing from nothing', () => {
    const tokenizer = qwen3Tokenizer()
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: tokenizer.vocabSize - 1 }), { minLength: 1, maxLength: 12 }),
        (ids) => {
          expect(tokenizer.decode(ids)).toBe(whole.decode(ids, { clean_up_tokenization_spaces: false }))
          expect(tokenizer.decode(Int32Array.from(ids))).toBe(tokenizer.decode(ids))
        },
      ),
      { numRuns: 150, seed: 5 },
    )
    expect(tokenizer.decode([])).toBe('')
    expect(tokenizer.encode('')).toEqual([])
    expect(tokenizer.decode([99_999_999])).toBe('')
  })

  it('spells control tokens in text out and leaves special ones out on request', () => {
    const tokenizer = qwen3Tokenizer()
    const end = tokenizer.tokenId('<|im_end|>')!
    for (const marker of ['<|im_end|>', '<think>', '<|endoftext|>', '</tool_call>']) {
      const ids = tokenizer.encode(`x${marker}y`)
      expect(ids.filter((id) => tokenizer.controlIds!.has(id))).toEqual([])
      expect(tokenizer.decode(ids)).toBe(`x${marker}y`)
    }
    expect(tokenizer.decode([end, ...tokenizer.encode('a')], { skipSpecialTokens: true })).toBe('a')
    expect(tokenizer).toMatchObject({ vocabSize: 151_669, eosTokenId: end })
    expect(tokenizer.tokenId('no such token')).toBeUndefined()
  })

  it('cuts inside a control spelling that the vocabulary would merge, and knows ordinary added tokens', () => {
    const tokenizer = createTokenizer(leaky, { eos_token: { content: '</s>' } })
    expect([...tokenizer.controlIds!]).toEqual([4, 7])
    expect(tokenizer.encode('a<a>a')).toEqual([0, 1, 0, 2, 0])
    expect(tokenizer.encode('aa')).toEqual([6])
    expect(tokenizer.decode([1, 0, 2])).toBe('<a>')
    expect(tokenizer).toMatchObject({ vocabSize: 8, eosTokenId: 7 })
  })

  it.each([
    [null, 'expected an object with a "model"'],
    [{}, 'expected an object with a "model"'],
    [{ ...leaky, added_tokens: [{ id: 'x' }] }, 'added_tokens'],
    [{ ...leaky, model: { type: 'Nonsense' } }, 'cannot be used'],
  ])('refuses %j', (tokenizerJson, problem) => {
    expect(() => createTokenizer(tokenizerJson)).toThrow(TokenizerError)
    expect(() => createTokenizer(tokenizerJson)).toThrow(problem)
  })
})

describe('getTokenizer', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'renderers-'))
  })
  afterEach(async () => {
    vi.unstubAllEnvs()
    await rm(folder, { recursive: true, force: true })
  })
  const write = async (at: string) => {
    await mkdir(at, { recursive: true })
    await writeFile(join(at, 'tokenizer.json'), JSON.stringify(leaky), 'utf8')
    await writeFile(join(at, 'tokenizer_config.json'), JSON.stringify({ eos_token: '</s>' }), 'utf8')
  }

  it('reads a folder', async () => {
    await write(folder)
    expect(await getTokenizer(folder)).toMatchObject({ eosTokenId: 7 })
  })

  it('does without tokenizer_config.json, not without tokenizer.json', async () => {
    await write(folder)
    await rm(join(folder, 'tokenizer_config.json'))
    expect((await getTokenizer(folder)).eosTokenId).toBeUndefined()
    await rm(join(folder, 'tokenizer.json'))
    await expect(getTokenizer(folder)).rejects.toThrow('there is none')
  })

  it('finds a hub name in the local cache, at the revision that main names', async () => {
    vi.stubEnv('HF_HUB_CACHE', folder)
    await expect(getTokenizer('acme/tiny')).rejects.toThrow('neither a folder nor a model in the local cache')
    const model = join(folder, 'models--acme--tiny')
    await write(join(model, 'snapshots', 'abc'))
    await mkdir(join(model, 'snapshots', 'aaa'))
    await mkdir(join(model, 'refs'))
    await writeFile(join(model, 'refs', 'main'), 'abc\n', 'utf8')
    expect(await getTokenizer('acme/tiny')).toMatchObject({ eosTokenId: 7 })
    await expect(getTokenizer('../acme')).rejects.toThrow(TokenizerError)
  })

  it('asks the given resolver, and stops when aborted', async () => {
    await write(folder)
    const resolve = vi.fn<(name: string) => string>(() => folder)
    expect(await getTokenizer('acme/far', { resolve })).toMatchObject({ eosTokenId: 7 })
    expect(resolve).toHaveBeenCalledWith('acme/far', {})
    const aborted = AbortSignal.abort(new Error('enough'))
    await expect(getTokenizer(folder, { signal: aborted })).rejects.toThrow('enough')
  })

  it('names the file that is damaged', async () => {
    await write(folder)
    await writeFile(join(folder, 'tokenizer_config.json'), '{', 'utf8')
    await expect(getTokenizer(folder)).rejects.toThrow(/tokenizer_config\.json is not JSON/)
  })
})
