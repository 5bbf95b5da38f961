import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { CheckpointError, InvalidInputError } from '@selfplay/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newestComplete, writeManifestedFolder } from './manifest.js'
import { openTrainingState, saveTrainingState, STATE_PARTS, TRAINING_STATE, type TrainingStateInput } from './state.js'
import { writeTensors } from './safetensors-writer.js'

let parent: string
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'selfplay-'))
})
afterEach(() => rm(parent, { recursive: true, force: true }))

const parameters = [
  { name: 'w', shape: [2, 3] },
  { name: 'b', shape: [3] },
]

/** Values that show any loss of bits: subnormals, negative zero, odd fractions. */
const values = (part: string, name: string) =>
  Float32Array.from({ length: name === 'w' ? 6 : 3 }, (_, i) => [1e-42, -0, 1 / 3, -2.5e30, part.length, i][i]!)

const state = (overrides: Partial<TrainingStateInput> = {}): TrainingStateInput => ({
  step: 7,
  identity: { architecture: 'qwen2', rank: 16 },
  parameters,
  read: values,
  extra: { rng: { seed: 1, counter: [1, 2] }, text: 'ä🎲' },
  ...overrides,
})

describe('check 48: a training state', () => {
  it('comes back bit for bit', async () => {
    const path = join(parent, 'state')
    await saveTrainingState(path, state())
    const loaded = await openTrainingState(path)
    expect(loaded).toMatchObject({ step: 7, identity: state().identity, parameters, extra: state().extra })
    loaded.expect(parameters)
    for (const part of STATE_PARTS) {
      for (const { name } of parameters) {
        const read = await loaded.read(part, name)
        expect(Buffer.from(read.buffer)).toEqual(Buffer.from(values(part, name).buffer))
      }
    }
    const into = new Float32Array(3)
    expect(await loaded.read('adam_v', 'b', { into })).toBe(into)
  })

  it('replaces an older state, and keeps it when saving fails', async () => {
    const path = join(parent, 'state')
    await saveTrainingState(path, state())
    await saveTrainingState(path, state({ step: 8 }))
    const broken = saveTrainingState(path, state({ step: 9, read: () => new Float32Array(1) }))
    await expect(broken).rejects.toThrow(/weight\/w \[2, 3\]: expected 6 elements, got 1/)
    expect((await openTrainingState(path)).step).toBe(8)
    expect(await readdir(parent)).toEqual(['state'])
  })

  it.each(['state.json', 'state.safetensors', 'manifest.json'])('refuses a state without %s', async (file) => {
    await saveTrainingState(join(parent, 'state'), state())
    await rm(join(parent, 'state', file))
    await expect(openTrainingState(join(parent, 'state'))).rejects.toThrow(CheckpointError)
  })

  it.each(['weight/b', 'adam_m/b', 'adam_v/w'])('refuses a state in which %s was left out', async (left) => {
    const tensors = STATE_PARTS.flatMap((part) =>
      parameters.map(({ name, shape }) => ({
        name: `${part}/${name}`,
        shape,
        dtype: 'F32' as const,
        read: () => values(part, name),
      })),
    )
    await writeManifestedFolder(join(parent, 'state'), TRAINING_STATE, async (staging) => {
      await staging.write('state.json', JSON.stringify({ step: 1, identity: {}, parameters: ['w', 'b'], extra: {} }))
      await staging.write('state.safetensors', (sink) =>
        writeTensors(
          sink,
          tensors.filter(({ name }) => name !== left),
        ),
      )
    })
    await expect(openTrainingState(join(parent, 'state'))).rejects.toThrow(`expected a tensor "${left}"`)
  })

  it('refuses a state.json that lacks a field', async () => {
    await writeManifestedFolder(join(parent, 'state'), TRAINING_STATE, async (staging) => {
      await staging.write('state.json', JSON.stringify({ step: 1, identity: {}, parameters: [] }))
    })
    await expect(openTrainingState(join(parent, 'state'))).rejects.toThrow(/expected a training state, got .*extra/s)
  })

  it('refuses the state of another model and names the differences', async () => {
    await saveTrainingState(join(parent, 'state'), state())
    const loaded = await openTrainingState(join(parent, 'state'))
    const other = [
      { name: 'w', shape: [3, 2] },
      { name: 'c', shape: [1] },
    ]
    expect(() => loaded.expect(other)).toThrow(
      /1 missing \("c", \.\.\.\); 1 unknown \("b", \.\.\.\); 1 of another shape \("w" \[2, 3\], not \[3, 2\], \.\.\.\)/,
    )
  })

  it('refuses what JSON would lose and a step that is none', async () => {
    const save = (overrides: Partial<TrainingStateInput>) => saveTrainingState(join(parent, 'state'), state(overrides))
    await expect(save({ extra: { loss: Infinity } })).rejects.toThrow(/extra\.loss is Infinity/)
    await expect(save({ step: -1 })).rejects.toThrow(InvalidInputError)
    expect(await readdir(parent)).toEqual([])
  })
})

describe('check 49: half-written states', () => {
  it('resumes from the previous one when the newest was cut in half', async () => {
    await saveTrainingState(join(parent, '1'), state({ step: 1 }))
    await saveTrainingState(join(parent, '2'), state({ step: 2 }))
    const file = join(parent, '2', 'state.safetensors')
    await truncate(file, Math.floor((await readFile(file)).length / 2))
    const { newest, skipped } = await newestComplete(parent, TRAINING_STATE)
    expect((await openTrainingState(newest!.path)).step).toBe(1)
    expect(skipped).toMatchObject([
      { path: join(parent, '2'), reason: expect.stringContaining('that were written, got') as string },
    ])
  })

  it('resumes from the previous one when the process was killed while saving', async () => {
    await saveTrainingState(join(parent, '1'), state({ step: 1 }))
    const script = join(parent, 'save.mts')
    await writeFile(
      script,
      `import { saveTrainingState } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, 'state.ts')).href)}
       await saveTrainingState(${JSON.stringify(join(parent, '2'))}, {
         step: 2, identity: {}, parameters: [{ name: 'a', shape: [1000] }, { name: 'b', shape: [1000] }],
         read: async (part, name) => {
           if (name === 'b') {
             console.log('half way')
             await new Promise((resolve) => setTimeout(resolve, 60_000))
           }
           return new Float32Array(1000)
         },
       })`,
    )
    const child = spawn(process.execPath, ['-C', '@selfplay/source', '--import', 'tsx', script], {
      cwd: import.meta.dirname,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await Promise.race([
      once(child.stdout, 'data'),
      once(child, 'exit').then(() => expect.unreachable('the writer ended by itself')),
    ])
    child.kill('SIGKILL')
    if (child.signalCode === null) await once(child, 'exit')
    const { newest, skipped } = await newestComplete(parent, TRAINING_STATE)
    expect(newest).toMatchObject({ number: 1, path: join(parent, '1') })
    expect(skipped).toEqual([])
    expect(await readdir(parent)).not.toContain('2')
  })
})
