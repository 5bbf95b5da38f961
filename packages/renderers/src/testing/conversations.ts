import {
  assistant,
  system,
  text,
  thinking,
  toolCall,
  toolResult,
  user,
  type Message,
  type ToolSpec,
} from '../messages.js'

/** A conversation for tests, with the tools that are declared in it. */
export interface TestConversation {
  readonly name: string
  readonly messages: readonly Message[]
  readonly tools?: readonly ToolSpec[]
}

/** Tools whose declarations touch the kinds of schema that formats print. */
export const testTools: readonly ToolSpec[] = [
  {
    name: 'get_weather',
    description: 'Weather of a city.',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', description: 'Name of the city' },
        unit: { type: 'string', enum: ['celsius', 'kelvin'] },
        days: { type: 'integer', default: 1 },
      },
      required: ['city'],
    },
  },
  { name: 'roll_dice', description: 'Rolls dice; é 骰子.', parameters: { type: 'object', properties: {} } },
  {
    name: 'search',
    description: 'Searches.',
    parameters: {
      type: 'object',
      properties: {
        queries: { type: 'array', items: { type: 'string' } },
        exact: { type: 'boolean' },
        limit: { type: 'number' },
        near: { type: 'object', properties: { city: { type: 'string' }, km: { type: 'number' } }, required: ['city'] },
      },
      required: ['queries', 'exact'],
    },
  },
]

const turns = (count: number): Message[] =>
  Array.from({ length: count }, (_, k) =>
    k % 2 === 0 ? user(`Question ${k / 2 + 1}: what is ${k} + 12?`) : assistant(`It is ${k + 11}.`),
  )

const thought = (thinks: string, says: string): Message => assistant([thinking(thinks), text(says)])
const weather = toolCall('get_weather', '{"city": "Łódź", "days": 2}')
const dice = toolCall('roll_dice', '{}')

/**
 * Conversations over which a renderer is compared with the published template: with and without a system message, 1 to
 * 6 turns, reasoning, tools, empty content, many scripts, and blanks at edges. No text in it spells a marker.
 */
export const conversations: readonly TestConversation[] = [
  ...[1, 2, 3, 4, 5, 6].map((count) => ({ name: `${count} turns`, messages: turns(count) })),
  ...[1, 2, 5].map((count) => ({
    name: `system and ${count} turns`,
    messages: [system('You are a terse oracle.'), ...turns(count)],
  })),
  { name: 'empty user', messages: [user('')] },
  { name: 'empty answer', messages: [user('Say nothing.'), assistant('')] },
  { name: 'empty system', messages: [system(''), user('Hi'), assistant('Hello')] },
  { name: 'empty answer in history', messages: [user('Say nothing.'), assistant(''), user('Again'), assistant('No.')] },
  {
    name: 'scripts',
    messages: [
      system('Réponds en français – “s’il te plaît”.'),
      user('漢字かな交じり文 عربى עברית हिन्दी 👩‍👩‍👧‍👦 🏴‍☠️ ﬁ Å'),
      assistant('مرحبا! 안녕하세요 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u200b zero‍width'),
    ],
  },
  {
    name: 'code',
    messages: [
      user('def f(x):\n\tif x > 1000000:\n\t\treturn "a < b &amp; c"\n\n\n    # 3.14159\r\n'),
      assistant('```python\nprint(1 + 1)  # two\n```\n\n- a\n  - b'),
    ],
  },
  {
    name: 'blanks at edges',
    messages: [
      system('  indented\n'),
      user('\n\n  Hello  there \t\n'),
      assistant('  Well \n\n'),
      user(' \u00a0x\u2003'),
      assistant('ok\n'),
    ],
  },
  { name: 'two system messages', messages: [system('First.'), system('Second.'), user('Hi'), assistant('Hello')] },
  { name: 'system later', messages: [user('Hi'), assistant('Hello'), system('Be brief.'), user('Well?')] },
  { name: 'system and answer only', messages: [system('Greet.'), assistant('Hello')] },
  { name: 'thinking', messages: [user('17 * 3?'), thought('10 * 3 = 30\n7 * 3 = 21', '51')] },
  {
    name: 'thinking in history',
    messages: [user('17 * 3?'), thought('30 + 21', '51'), user('And 18 * 3?'), thought('51 + 3', '54')],
  },
  { name: 'thinking and no answer', messages: [user('Think.'), assistant([thinking('hmm')])] },
  { name: 'tools declared', messages: [user('Weather in Łódź?')], tools: testTools },
  { name: 'system and tools', messages: [system('Use tools.'), user('Hi'), assistant('Hello')], tools: testTools },
  { name: 'tool call', messages: [user('Weather?'), assistant([weather])], tools: testTools },
  {
    name: 'text and tool call',
    messages: [user('Weather?'), assistant([text('Let me see.'), weather])],
    tools: testTools,
  },
  {
    name: 'tool result',
    messages: [user('Weather?'), assistant([weather]), toolResult('{"sky": "grey"}\n', { name: 'get_weather' })],
    tools: testTools,
  },
  {
    name: 'tool result and answer',
    messages: [
      user('Weather?'),
      assistant([weather]),
      toolResult('rain', { name: 'get_weather' }),
      assistant('It rains.'),
    ],
    tools: testTools,
  },
  {
    name: 'calls without declarations',
    messages: [user('Roll.'), assistant([dice]), toolResult('6', { name: 'roll_dice' })],
  },
  {
    name: 'two calls and results',
    messages: [
      user('Both.'),
      assistant([weather, dice]),
      toolResult('rain', { name: 'get_weather' }),
      toolResult('6', { name: 'roll_dice' }),
      assistant('Rain and a six.'),
      user('Thanks'),
      assistant('Welcome.'),
    ],
  },
  {
    name: 'thinking and tools',
    messages: [
      user('Weather?'),
      assistant([thinking('I need data.'), weather]),
      toolResult('rain', { name: 'get_weather' }),
      thought('So it rains.', 'Rain.'),
    ],
    tools: testTools,
  },
]
