import { describe, expect, it } from 'vitest'
import { allFormats, standInRenderer } from '../../tests/formats.js'
import { assistant, text, thinking, user } from '../messages.js'
import type { ParsedResponse, Renderer } from '../renderer.js'
import { byteTokenizer } from '../byte-tokenizer.js'
import { checkBridge, checkEnds, checkExample, checkInjection, checkRoundTrip, checkStreaming } from './checks.js'
import { randomConversation, seededRandom } from './random.js'

const renderer = standInRenderer(allFormats.find(({ name }) => name === 'qwen3')!)
const messages = [user('a'), assistant([thinking('t'), text('b c')])]
const change = (changes: Partial<Renderer>): Renderer => ({ ...renderer, ...changes })
const changeParse = (edit: (parsed: ParsedResponse) => Partial<ParsedResponse>) =>
  change({ parse: (...given) => ({ ...renderer.parse(...given), ...edit(renderer.parse(...given)) }) })

describe('the kit catches', () => {
  it('nothing in a sound renderer', () => {
    const { prompt, target } = checkExample(renderer, messages)
    expect(() => {
      checkRoundTrip(renderer, messages)
      checkStreaming(renderer, [...target], prompt)
      checkInjection(renderer, [user('<|im_end|>')])
      checkEnds(renderer, messages)
      checkBridge(renderer, messages, [user('c')])
    }).not.toThrow()
  })

  it('a prompt that the example does not start with', () => {
    const broken = change({ generationPrompt: () => Int32Array.of(1, 2, 3) })
    expect(() => checkExample(broken, messages)).toThrow('does not start with the generation prompt')
  })

  it('loss on the prompt', () => {
    const broken = change({
      supervisedExample: (...given) => {
        const example = renderer.supervisedExample(...given)
        return { ...example, weights: example.weights.map(() => 1) }
      },
    })
    expect(() => checkExample(broken, messages)).toThrow('weights are not 1 exactly')
  })

  it('a parser that loses something', () => {
    const broken = changeParse(() => ({ message: assistant('b') }))
    expect(() => checkRoundTrip(broken, messages)).toThrow('parse(render(m)) is not')
    expect(() =>
      checkRoundTrip(
        changeParse(() => ({ termination: 'malformed' })),
        messages,
      ),
    ).toThrow('as malformed')
  })

  it('a stream that differs from the whole', () => {
    const { prompt, target } = checkExample(renderer, messages)
    const broken = changeParse(({ message }) => ({ message: { ...message, content: 'other' } }))
    expect(() => checkStreaming(broken, [...target], prompt)).toThrow('a stream gives another result')
    const silent = change({
      parseStream: (...given) => {
        const stream = renderer.parseStream(...given)
        return { ...stream, push: (ids) => (stream.push(ids), []) }
      },
    })
    expect(() => checkStreaming(silent, [...target], prompt)).toThrow('do not add up')
  })

  it('text that becomes a control token', () => {
    const id = renderer.tokenizer.tokenId('<|im_end|>')!
    const broken = change({
      generationPrompt: (of, ...rest) =>
        Int32Array.from([
          ...renderer.generationPrompt(of, ...rest),
          ...(JSON.stringify(of).includes('<|im_end|>') ? [id] : []),
        ]),
    })
    expect(() => checkInjection(broken, [user('<|im_end|>')])).toThrow('became control tokens')
  })

  it('ends that are read wrongly', () => {
    expect(() =>
      checkEnds(
        changeParse(() => ({ termination: 'stop' })),
        messages,
      ),
    ).toThrow('two ends')
  })

  it('a bridge that leaves the transcript', () => {
    const broken = change({ bridge: () => Int32Array.of(1) })
    expect(() => checkBridge(broken, messages, [user('c')])).toThrow('does not start with the transcript')
  })
})

it('byteTokenizer encodes any text, and control tokens only by name', () => {
  const tokenizer = byteTokenizer({ control: ['<x>'], eos: '</s>', bos: '<s>' })
  for (const { content } of randomConversation(seededRandom(3), ['<x>', '</s>'])) {
    const said = typeof content === 'string' ? content : ''
    expect(tokenizer.decode(tokenizer.encode(said))).toBe(said)
    expect(tokenizer.encode(said).some((id) => tokenizer.controlIds!.has(id))).toBe(false)
  }
  expect(tokenizer.decode([tokenizer.eosTokenId!, 97, tokenizer.bosTokenId!], { skipSpecialTokens: true })).toBe('a')
  expect(tokenizer.encode('12 the')).toHaveLength(2)
})
