import type { Message } from '@selfplay/renderers'

/** What a reader sees of a message: its text, without reasoning and tool calls. */
export const visibleText = ({ content }: Message): string =>
  typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('')

/** The message without its reasoning. */
export const withoutThinking = (message: Message): Message =>
  typeof message.content === 'string'
    ? message
    : { ...message, content: message.content.filter(({ type }) => type !== 'thinking') }

/** The message with `change` made to all text in it. */
export const mapText = (message: Message, change: (text: string) => string): Message => ({
  ...message,
  content:
    typeof message.content === 'string'
      ? change(message.content)
      : message.content.map((part) => {
          if (part.type === 'text') return { ...part, text: change(part.text) }
          return part.type === 'thinking' ? { ...part, thinking: change(part.thinking) } : part
        }),
})
