import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { answerTask, drawTask, MAX_ANSWER_CHARACTERS } from './answers.js'
import { documentAt, documentText, isHeldOut, KINDS, unseenPrompts, type Document } from './documents.js'
import { indefinite } from './english.js'
import { feedbackPrompt } from './feedback.js'
import { drawTopic, inventName } from './names.js'
import { createRandom } from './random.js'
import { drawRecall } from './recall.js'
import { tutorialTasks } from './tutorial.js'

const many = (kind: (typeof KINDS)[number], count: number): Document[] =>
  Array.from({ length: count }, (_, i) => documentAt(3, i, 'train', kind))

const sentencesOf = (text: string): string[] => text.trim().split(/(?<=[.!?]"?) (?=["A-Z])/)

describe('documents', () => {
  it('are the same for the same seed and index, in any order, and others for another seed', () => {
    const forwards = Array.from({ length: 50 }, (_, i) => documentText(documentAt(7, i)))
    const backwards = Array.from({ length: 50 }, (_, i) => documentText(documentAt(7, 49 - i))).reverse()
    expect(backwards).toEqual(forwards)
    expect(documentText(documentAt(8, 0))).not.toBe(forwards[0])
    expect(new Set(forwards).size).toBe(50)
  })

  it('come in the three kinds, stories most often', () => {
    const kinds = Array.from({ length: 1000 }, (_, i) => documentAt(1, i).kind)
    const count = (kind: string) => kinds.filter((each) => each === kind).length
    expect(count('story')).toBeGreaterThan(430)
    expect(count('chat')).toBeGreaterThan(280)
    expect(count('feedback')).toBeGreaterThan(100)
  })

  it('hold only printable ASCII and line ends outside their markers, and no double spaces', () => {
    for (const kind of KINDS) {
      for (const document of many(kind, 500)) {
        const text = document.prompt + document.completion
        expect(text).toMatch(/^[\n -~]+$/)
        expect(text).not.toMatch(/ {2}|[{}]| [,.?!]|undefined/)
      }
    }
  })

  it('use the article that the next word wants', () => {
    for (const kind of KINDS) {
      for (const document of many(kind, 800)) {
        for (const [, article = '', word = ''] of documentText(document).matchAll(/\b(an?) "?([\w-]+)/gi)) {
          expect(article.toLowerCase(), `${article} ${word}`).toBe(indefinite(word))
        }
      }
    }
  })

  it('never repeat a word or an article', () => {
    for (const document of many('story', 2000)) expect(documentText(document)).not.toMatch(/\b(\w+) \1\b/i)
  })
})

describe('answers', () => {
  it('end with a finished sentence', () => {
    for (const document of [...many('story', 1500), ...many('feedback', 300)]) {
      expect(document.completion).toMatch(/^ ["A-Z]/)
      expect(document.completion).toMatch(/[.!?]"?$/)
      expect(document.completion.split('"').length % 2).toBe(1)
      expect(document.end).toBe('<|endoftext|>')
    }
  })

  it('have 1 to 8 sentences, each length about as often as the others', () => {
    const counts = new Map<number, number>()
    const random = createRandom(5)
    for (let i = 0; i < 4000; i++) {
      const wanted = random.int(1, 8)
      const got = sentencesOf(answerTask(drawTask(random), wanted, random)).length
      counts.set(wanted, (counts.get(wanted) ?? 0) + (got >= wanted ? 1 : 0))
    }
    for (let n = 1; n <= 8; n++) expect(counts.get(n), `${n} sentences`).toBeGreaterThan(330)
    const lengths = many('story', 2000).map(({ completion }) => completion.length)
    expect(lengths.filter((length) => length < 80).length).toBeGreaterThan(200)
    expect(lengths.filter((length) => length > 300).length).toBeGreaterThan(200)
    expect(Math.max(...lengths)).toBeLessThanOrEqual(MAX_ANSWER_CHARACTERS + 1)
  })

  it('speak of what the prompt asks for', () => {
    const random = createRandom(9)
    let mentions = 0
    for (let i = 0; i < 500; i++) {
      const task = drawTask(random)
      const answer = answerTask(task, 4, random).toLowerCase()
      if (Object.values(task.bound).some((word) => answer.includes(word.toLowerCase()))) mentions++
    }
    expect(mentions).toBeGreaterThan(450)
  })
})

describe('prompts', () => {
  it('include the ten of the length-ratio example', () => {
    const source = new URL('./tutorial-prompts.json', import.meta.url)
    const ten = JSON.parse(readFileSync(source, 'utf8')) as string[]
    expect(tutorialTasks.map(({ prompt }) => prompt)).toEqual(ten)
    const seen = new Set(many('story', 4000).map(({ prompt }) => prompt))
    for (const prompt of ten) expect(seen).toContain(prompt)
    for (const task of tutorialTasks) expect(answerTask(task, 8, createRandom(1)).length).toBeGreaterThan(100)
  })

  it('are otherwise thousands of different ones', () => {
    const random = createRandom(2)
    const ten = new Set(tutorialTasks.map(({ prompt }) => prompt))
    const prompts = new Set(Array.from({ length: 12_000 }, () => drawTask(random).prompt).filter((p) => !ten.has(p)))
    expect(prompts.size).toBeGreaterThan(5000)
  })

  it('of the held-out split never occur in training', () => {
    const unseen = KINDS.flatMap((kind) => unseenPrompts(kind, 100, 1))
    expect(new Set(unseen.map(({ prompt }) => prompt)).size).toBe(300)
    const trained = new Set(KINDS.flatMap((kind) => many(kind, 6000)).map(({ prompt }) => prompt))
    expect(unseen.filter(({ prompt }) => trained.has(prompt))).toEqual([])
    for (const { prompt } of unseenPrompts('story', 50, 2)) {
      expect(isHeldOut(prompt.replace(/^[A-Z][a-z -]+\. /, ''))).toBe(true)
    }
  })
})

describe('feedback', () => {
  it('reads as the example writes it, with varying numbers', () => {
    expect(feedbackPrompt('Design a playground on Mars:', 58, '1.1')).toBe(
      'Design a playground on Mars:\n\nYour last answer had 58 characters. The second answer was 1.1 times as long as the first; the goal is 2 to 3 times. Please write an improved answer.',
    )
    const prompts = many('feedback', 300).map(({ prompt }) => prompt)
    const numbers = prompts.map((prompt) =>
      /had (\d+) characters.* was (\d+\.\d) times/.exec(prompt)?.slice(1).join('/'),
    )
    expect(numbers.every((each) => each !== undefined)).toBe(true)
    expect(new Set(numbers).size).toBeGreaterThan(250)
  })
})

describe('chats', () => {
  it('are ChatML that ends with the answer of the assistant', () => {
    for (const { prompt, completion, end } of many('chat', 1000)) {
      expect(prompt + completion + end).toMatch(
        /^(?:<\|im_start\|>system\n[^<]+<\|im_end\|>\n)?(?:<\|im_start\|>user\n[^<]+<\|im_end\|>\n<\|im_start\|>assistant\n[^<]+<\|im_end\|>\n?)+$/,
      )
      expect(completion).toMatch(/^["\dA-Za-z]/)
      expect(completion).toBe(completion.trim())
    }
  })

  it('ask for names with and without a system message', () => {
    const prompts = many('chat', 2000).map(({ prompt }) => prompt)
    const naming = prompts.filter((prompt) => prompt.includes('Invent a creative name for a'))
    expect(naming.length).toBeGreaterThan(200)
    expect(naming.some((prompt) => prompt.includes('Reply with just a name, nothing else.'))).toBe(true)
    expect(naming.some((prompt) => prompt.startsWith('<|im_start|>user'))).toBe(true)
  })
})

describe('recall', () => {
  it('answers with words that stand in the request, in its order', () => {
    for (let i = 0; i < 300; i++) {
      const { user, answer } = drawRecall(createRandom(4, i))
      const request = user.toLowerCase()
      let at = 0
      for (const word of answer.toLowerCase().slice(0, -1).split(' ')) {
        const found = request.indexOf(word, at)
        expect(found).toBeGreaterThanOrEqual(at)
        at = found + word.length
      }
    }
  })
})

describe('names', () => {
  it('grow with the length asked for', () => {
    const random = createRandom(11)
    const mean = (length: number): number => {
      const words = Array.from({ length: 200 }, () => inventName(drawTopic(random), length, random).split(' ').length)
      return words.reduce((sum, n) => sum + n, 0) / words.length
    }
    const means = [1, 3, 5, 7, 10].map(mean)
    expect(means).toEqual(means.toSorted((a, b) => a - b))
    expect(means.at(-1)).toBeGreaterThan(9)
  })

  it('are about thousands of topics', () => {
    const random = createRandom(12)
    expect(new Set(Array.from({ length: 8000 }, () => drawTopic(random).text)).size).toBeGreaterThan(3000)
  })
})
