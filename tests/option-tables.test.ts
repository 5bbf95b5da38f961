import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { EnvFromMessageEnv } from '../packages/env/src/env-from-message-env.js'
import { byteTokenizer, mockMessageEnv } from '../packages/env/src/testing/index.js'
import { getRenderer } from '../packages/renderers/src/index.js'
import { magrpoConfigSchema } from '../packages/trainer/src/magrpo/config.js'
import { root } from './run.js'

/** The defaults in the table of a document that names this option, by option; code as `inspect` writes it. */
async function tableWith(option: string, document: string): Promise<Record<string, string>> {
  const text = await readFile(join(root, document), 'utf8')
  const table = text.split('\n\n').find((block) => block.startsWith('| option') && block.includes(`\`${option}\``))!
  const rows = table.split('\n').slice(2)
  return Object.fromEntries(
    rows
      .map((row) => row.split('|').map((cell) => cell.trim().replaceAll('`', '')))
      .map(([, name, value]) => [name, value]),
  )
}

const written = (defaults: object) =>
  Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, inspect(value)]))

describe('tables of options have every option with its default', () => {
  it('of MAGRPOTrainer', async () => {
    const table = await tableWith('numGenerations', 'docs/magrpo.md')
    expect(table).toEqual(written(magrpoConfigSchema.parse({})))
  })

  it('of EnvFromMessageEnv', async () => {
    const messageEnv = mockMessageEnv()
    const {
      renderer,
      messageEnv: _,
      ...defaults
    } = new EnvFromMessageEnv({
      renderer: getRenderer('chatml', byteTokenizer()),
      messageEnv,
    })
    expect(renderer.name).toBe('chatml')
    expect(await tableWith('failedParseReward', 'docs/environments.md')).toEqual(written(defaults))
  })
})
