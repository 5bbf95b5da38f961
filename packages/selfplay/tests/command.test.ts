import { renameSync } from 'node:fs'
import { cp, mkdtemp, readFile, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadAgents } from '../src/index.js'
import { selfplay } from './support/command.js'
import { writeTinyModel } from './support/tiny-model.js'

let model: string
let cwd: string
/** Settings that make a run of six updates take about a second. */
let small: string[]

beforeAll(async () => {
  model = await writeTinyModel()
  cwd = await mkdtemp(join(tmpdir(), 'selfplay-cli-'))
  const quick = '--epochs 1 --max-steps 6 --generations 4 --max-new-tokens 12 --logging-steps 1 --threads 1'
  small = ['train', 'length-ratio', '--model', model, ...quick.split(' ')]
})
afterAll(async () => {
  for (const folder of [model, cwd]) await rm(folder, { recursive: true, force: true })
})

const rows = async (folder: string, file: string) =>
  (await readFile(join(folder, file), 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, number>)

/** Metrics without those that measure time. */
const timeless = (all: readonly Record<string, number>[]) =>
  all.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !/^(time|perf)\//.test(name))))

describe('what is not understood ends with 2 and names what is near', () => {
  it.each([
    [['train', 'length-rato'], /no task "length-rato": did you mean "length-ratio"\?/],
    [
      ['train', 'length-ratio', '--epoch', '3'],
      /^error \(usage\)\n {2}unknown option '--epoch': did you mean --epochs\?\n {2}`selfplay train --help` lists/,
    ],
    [
      ['train', 'length-ratio', '--epochs', '0'],
      /'--epochs <n>' argument '0' is invalid\. Expected a whole number from 1/,
    ],
    [['train', 'length-ratio', '--generations', '1'], /'--generations <n>' .* Expected a whole number from 2/],
    [['train', 'length-ratio', '--temperature', '0'], /Expected a number greater than 0, such as 1\./],
    [['train', 'length-ratio', '--learning-rate', 'fast'], /Expected a number greater than 0/],
    [['train', 'length-ratio', '--learning-rate-schedule', 'cosin'], /Allowed choices are constant, linear, cosine/],
    [['train', 'length-ratio', '--seed', '0x1f'], /Expected a whole number/],
    [['train', 'length-ratio', '--model', ''], /Expected some text/],
    [['train', 'length-ratio', '--wandb-project', 'p'], /--wandb-project .* add --wandb/],
    [['train', 'length-ratio', 'again'], /too many arguments/],
    [['train'], /missing required argument 'task': what to learn: length-ratio, multi-turn-feedback\n/],
    [['inspect', '--updat', '3'], /unknown option '--updat': did you mean --update\?\n {2}`selfplay inspect --help`/],
    [['play', 'tictac'], /nor a file; did you mean "tic-tac-toe"\?/],
    [['trian'], /unknown command 'trian': did you mean train\?\n {2}`selfplay --help` lists/],
    [['help', 'trian'], /unknown command 'trian': did you mean "train"\?/],
    [['length-rato'], /unknown command 'length-rato': did you mean selfplay train length-ratio\?/],
    [['tic-tac-toe'], /did you mean selfplay play tic-tac-toe\?/],
    [['resume'], /unknown command 'resume'\n/],
    [[], /Usage: selfplay/],
  ])('%j', async (args, message) => {
    const { code, out, err } = await selfplay(args, { cwd })
    expect(err).toMatch(message)
    expect([code, out]).toEqual([2, ''])
  })

  it('helps and tells its version with 0', async () => {
    const help = await selfplay(['train', '--help'], { cwd })
    expect(help.code).toBe(0)
    for (const option of ['--model', '--revision', '--resume', '--wandb-entity', 'length-ratio'])
      expect(help.out).toContain(option)
    expect(help.out).toContain('length-ratio, settings for the bundled model\n    90 epochs, 4 prompts per update')
    expect(help.out).toContain("length-ratio, the tutorial's settings, for every other model\n    3 epochs")
    expect(help.out).toContain('20 unseen prompts, a checkpoint every 50 updates, a line every 20 updates')
    for (const flag of ['--version', '-v']) expect((await selfplay([flag], { cwd })).out).toMatch(/^\d+\.\d+\.\d+\n$/)
    expect((await selfplay(['help', 'train'], { cwd })).out).toBe(help.out)
    expect(help.out.split('\n').filter((line) => line.length > 80)).toEqual([])
  })
})

describe('what goes wrong ends with 1 in one readable block', () => {
  it.each([
    [['--model', './nowhere'], /^error \(checkpoint\)\n {2}.*nowhere: expected a model folder, got nothing/],
    [
      ['--model', 'nowhere'],
      /^error \(invalid_input\)\n {2}expected a model folder or a hub name org\/name, got "nowhere"/,
    ],
    [['--model', 'bundled:huge'], /^error \(invalid_input\)\n {2}expected a bundled model \(bundled:tiny\)/],
    [['--model', 'bundled:tiny', '--revision', 'main'], /bundled:tiny has no revisions, got "main"/],
    [['--wandb'], /^error \(config\)\n.*WANDB_API_KEY is not set/],
    [['--resume'], /^error \(run_folder\)\n {2}there is no run of length-ratio in/],
    [['--resume', 'nowhere'], /^error \(run_folder\)\n {2}.*nowhere holds no run/],
    [['--model', join(tmpdir(), '..')], /^error \(tokenizer\)\n {2}expected .* to hold tokenizer\.json/],
  ])('train length-ratio %j', async (args, message) => {
    const { code, out, err } = await selfplay(['train', 'length-ratio', ...args], { cwd })
    expect(err).toMatch(message)
    expect(err).not.toMatch(/^ +at /m)
    expect([code, out]).toEqual([1, ''])
  })

  it('shows the place in the code when asked', async () => {
    const { err } = await selfplay(['train', 'length-ratio', '--model', './nowhere', '--verbose'], { cwd })
    expect(err).toMatch(/^ +at /m)
  })
})

describe('doctor', () => {
  it('says what this machine offers', async () => {
    const { code, out } = await selfplay(['doctor'], { cwd })
    expect(code).toBe(0)
    expect(out).toContain(process.version)
    expect(out).toMatch(/onnxruntime \d+\.\d+/)
    expect(out).toMatch(/verdict +this machine can train/)
  })

  it('says it in JSON, without secrets', async () => {
    const { code, out } = await selfplay(['doctor', '--json'], { cwd, env: { WANDB_API_KEY: 'very-secret' } })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ ready: true, wandbKey: true, machine: { node: process.version } })
    expect(out).not.toContain('very-secret')
  })
})

describe('train', () => {
  it('trains, shows what it does, and leaves a run folder whose models load again', async () => {
    const { code, out, err } = await selfplay([...small, '--unseen-prompts', '2'], { cwd })
    expect([code, err]).toEqual([0, ''])
    const [name] = await readdir(join(cwd, 'runs'))
    // Check 59: a name that is legal on Windows.
    expect(name).toMatch(/^length-ratio-\d{4}-\d{2}-\d{2}T\d{6}Z$/)
    const folder = join(cwd, 'runs', name!)

    expect(out).toMatch(/^selfplay \d.* length-ratio\ntask +agent B learns/)
    expect(out).toContain(model)
    expect(out).toMatch(/data +10 prompts, 1 epoch: 6 updates of 4 joint answers, at most 12/)
    const flat = out.replaceAll(/\s+/g, ' ')
    expect(flat).toContain(
      "settings the tutorial's: 4 answers of each agent per prompt; learning rate 0.00005 (constant)",
    )
    expect(flat).toContain('changed: --epochs, --generations, --max-new-tokens, --logging-steps, --unseen-prompts')
    expect(flat).toContain('rewards times 100 for training (reward_mean in metrics.jsonl)')
    expect(out).toContain(`look      npx selfplay inspect ${join('runs', name!)}\n`)
    // Check 52: the first loss is explained in the run folder, and the gradient is there to see.
    expect(out).not.toContain('on-policy')
    expect(await readFile(join(folder, 'events.jsonl'), 'utf8')).toMatch(/the samples are on-policy/)
    const lines = [
      ...out.matchAll(
        /update (\d)\/6 {2}reward (\S+) \(mean of \d\) {2}gradient (\S+) {2}\S+( k)? tok\/s {2}\d+:\d\d left/g,
      ),
    ]
    expect(lines.map((match) => match[1])).toEqual(['1', '2', '3', '4', '5', '6'])
    expect(Number(lines[0]![3])).toBeGreaterThan(0)

    const rewards = (await rows(folder, 'metrics.jsonl')).map((row) => row['turn_1/raw_reward_mean']!)
    expect(rewards).toHaveLength(6)
    expect(lines[0]![2]).toBe(rewards[0]!.toFixed(2))
    expect(out).toContain(`last 20 %   ${rewards.at(-1)!.toFixed(2)}`)
    const unseen = (await rows(folder, 'evaluations.jsonl')).map((row) => row['eval/turn_1/raw_reward_mean']!)
    expect(out).toMatch(/unseen +mean reward on 2 prompts never trained on/)
    expect(out.replaceAll(/\s+/g, ' ')).toContain(`${unseen[0]!.toFixed(2)} before, ${unseen[1]!.toFixed(2)} after`)
    expect(out).toMatch(
      /before +"Describe a city in the clouds:" {2}ratio \S+, reward \d\.\d\d\n +A +\d+ chars .*\n +B +\d+ chars/,
    )
    expect(out).toMatch(/after +"Describe a city in the clouds:"/)
    // oxlint-disable-next-line no-control-regex -- that is what is looked for
    expect(out).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/)

    const files = await readdir(folder)
    expect(files).toEqual(
      expect.arrayContaining(['agent_0', 'agent_1', 'checkpoints', 'command.json', 'manifest.json', 'rollouts.jsonl']),
    )
    const agents = await loadAgents(join(folder, 'agent_1'), 1)
    expect(agents[0]!.tokenizer.decode(agents[0]!.tokenizer.encode('the moon'))).toBe('the moon')
    await agents[0]!.dispose()
    await expect(loadAgents(folder, 2)).rejects.toThrow(/is a run; its models are agent_0, agent_1/)
  })

  it('says "up to" where prompts do not divide into updates', async () => {
    const flags = ['--prompts-per-update', '4', '--max-steps', '1', '--output', 'uneven']
    const { out } = await selfplay([...small, ...flags], { cwd })
    expect(out.replaceAll(/\s+/g, ' ')).toContain('1 update of up to 16 joint answers')
  })

  it('refuses answers longer than the context, with both numbers', async () => {
    const { code, err } = await selfplay([...small, '--max-new-tokens', '100000', '--output', 'long'], { cwd })
    expect(code).toBe(1)
    expect(err.replaceAll(/\s+/g, ' ')).toMatch(/--max-new-tokens is 100000, but the context of .* has \d+ tokens/)
    expect(await readdir(cwd)).not.toContain('long')
  })

  it('trains adapters on one shared model', async () => {
    const { code, out } = await selfplay([...small, '--lora-rank', '2', '--output', 'lora'], { cwd })
    expect(code).toBe(0)
    expect(out).toMatch(/each trains an adapter of rank 2/)
  })

  it('gives the same run for the same seed and another for another (check 54)', async () => {
    const run = async (output: string, seed: string) => {
      const { code } = await selfplay([...small, '--max-steps', '3', '--seed', seed, '--output', output], { cwd })
      expect(code).toBe(0)
      return timeless(await rows(join(cwd, output), 'metrics.jsonl'))
    }
    const first = await run('seed-a', '4')
    expect(await run('seed-b', '4')).toEqual(first)
    expect(await run('seed-c', '5')).not.toEqual(first)
  })
})

describe('a run that is stopped', () => {
  let whole: Record<string, number>[]
  let stopped: Awaited<ReturnType<typeof selfplay>>
  let seconds: number

  beforeAll(async () => {
    await selfplay([...small, '--output', 'whole'], { cwd })
    whole = timeless(await rows(join(cwd, 'whole'), 'metrics.jsonl'))
    let pressed = 0
    stopped = await selfplay([...small, '--output', 'stopped'], {
      cwd,
      onOut: (out, signals) => {
        if (pressed > 0 || !/update 3\//.test(out)) return
        pressed = performance.now()
        signals.emit('SIGINT', 'SIGINT')
        signals.emit('SIGINT', 'SIGINT') // npm passes on what the terminal has sent already: one key press
      },
    })
    seconds = (performance.now() - pressed) / 1000
  })

  it('ends within 5 seconds with a checkpoint, and says how to go on (check 45)', () => {
    expect(stopped.code).toBe(130)
    expect(stopped.err).toBe('')
    expect(stopped.out).toMatch(/stopped +the run is saved as it was after update 3\n/)
    expect(stopped.out).toMatch(/go on +npx selfplay train length-ratio --resume stopped\n/)
    expect(seconds).toBeLessThan(5)
  })

  it('says so when it is stopped before its first update, and leaves no folder (check 45)', async () => {
    const elsewhere = await mkdtemp(join(cwd, 'early-'))
    let pressed = false
    const { code, out, err } = await selfplay(small, {
      cwd: elsewhere,
      onOut: (text, signals) => {
        if (pressed || !/^run +runs/m.test(text)) return
        pressed = true
        signals.emit('SIGINT', 'SIGINT')
      },
    })
    expect([code, err]).toEqual([130, ''])
    expect(out).toMatch(/stopped +before there was a checkpoint\n/)
    expect(await readdir(elsewhere)).toEqual([])
  })

  it('refuses other settings when it goes on, and names them', async () => {
    const { code, err } = await selfplay(['train', 'length-ratio', '--resume', 'stopped', '--generations', '8'], {
      cwd,
    })
    expect(code).toBe(2)
    expect(err).toContain('--generations is 8, the run has 4')
    const other = await selfplay(['train', 'length-ratio', '--resume', 'stopped', '--output', 'else'], { cwd })
    expect([other.code, other.err]).toEqual([2, expect.stringContaining('leave --output out')])
  })

  it('is not overwritten by a new run', async () => {
    const { code, err } = await selfplay([...small, '--output', 'stopped'], { cwd })
    expect([code, err]).toEqual([1, expect.stringMatching(/already holds a run: go on with it \(--resume /)])
  })

  it('goes on to the very same metrics and models as a run that was not stopped', async () => {
    const { code, out } = await selfplay(['train', 'length-ratio', '--resume', 'stopped'], { cwd })
    expect(code).toBe(0)
    expect(out).toMatch(/resumes +stopped/)
    expect(timeless(await rows(join(cwd, 'stopped'), 'metrics.jsonl'))).toEqual(whole)
    for (const agent of ['agent_0', 'agent_1']) {
      const weights = (run: string) => readFile(join(cwd, run, agent, 'model.safetensors'))
      expect((await weights('stopped')).equals(await weights('whole'))).toBe(true)
    }
    // The answers "before" are those of the start of the run, not of the resumed part.
    const before = (text: string) => /before[\s\S]*?after/.exec(text)?.[0]
    expect(before(out)).toBeDefined()
    const again = await selfplay(['train', 'length-ratio', '--resume', 'stopped'], { cwd })
    expect([again.code, before(again.out)]).toEqual([0, before(out)])
  })

  it('says that it is finished and how to lengthen it, and trains nothing', async () => {
    const { code, out, err } = await selfplay(['train', 'length-ratio', '--resume', 'stopped'], { cwd })
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/\nfinished +all 6 updates of the run are done already: nothing was trained\n/)
    expect(out).toMatch(/\nlonger +npx selfplay train length-ratio --resume stopped --epochs 2 --max-steps 12\n/)
    expect(out).not.toMatch(/update \d+\/6/)
    expect(timeless(await rows(join(cwd, 'stopped'), 'metrics.jsonl'))).toEqual(whole)
  })

  it('is lengthened to the very same run as one that was asked for that length', async () => {
    const length = ['--epochs', '2', '--max-steps', '12']
    await selfplay([...small, ...length, '--output', 'longer'], { cwd })
    const want = timeless(await rows(join(cwd, 'longer'), 'metrics.jsonl'))
    expect(want.slice(0, 6)).toEqual(whole)

    await selfplay([...small, '--output', 'lengthened'], { cwd })
    const { code, out, err } = await selfplay(['train', 'length-ratio', '--resume', 'lengthened', ...length], { cwd })
    expect([code, err]).toEqual([0, ''])
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      'note maxSteps was 6 and is 12, numTrainEpochs was 1 and is 2; the run goes on as one that was begun like this',
    )
    expect(out).toMatch(/update +7\/12/)
    expect(out).toMatch(/ 12 updates/)
    expect(timeless(await rows(join(cwd, 'lengthened'), 'metrics.jsonl'))).toEqual(want)
    for (const agent of ['agent_0', 'agent_1']) {
      const weights = (run: string) => readFile(join(cwd, run, agent, 'model.safetensors'))
      expect((await weights('lengthened')).equals(await weights('longer'))).toBe(true)
    }
    // It stays that long: without flags there is nothing left.
    const again = await selfplay(['train', 'length-ratio', '--resume', 'lengthened'], { cwd })
    expect([again.code, again.out]).toEqual([0, expect.stringContaining('all 12 updates of the run are done already')])
  })

  it('says what a schedule does to a run that is lengthened', async () => {
    const cosine = [...small, '--learning-rate-schedule', 'cosine', '--max-steps', '2', '--output', 'cosine']
    await selfplay(cosine, { cwd })
    const { code, out } = await selfplay(['train', 'length-ratio', '--resume', 'cosine', '--max-steps', '4'], { cwd })
    expect(code).toBe(0)
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      'from update 3 on the learning rate follows the cosine schedule of the new length',
    )
    const rates = (await rows(join(cwd, 'cosine'), 'metrics.jsonl')).map((row) => row['agent_0/learning_rate']! / 5e-5)
    const factor = (done: number, total: number) => (1 + Math.cos((Math.PI * done) / total)) / 2
    const expected = [factor(0, 2), factor(1, 2), factor(2, 4), factor(3, 4)]
    rates.forEach((rate, i) => expect(rate).toBeCloseTo(expected[i]!, 9))
  })

  it('says which checkpoint it passed over (check 49)', async () => {
    const checkpoints = join(cwd, 'stopped', 'checkpoints')
    const newest = (await readdir(checkpoints)).sort().at(-1)!
    await writeFile(join(checkpoints, newest, 'trainer.json'), '{"half')
    const { code, out } = await selfplay(['train', 'length-ratio', '--resume', 'stopped'], { cwd })
    expect(code).toBe(0)
    expect(out.replaceAll(/\s+/g, ' ')).toMatch(new RegExp(`warning ${newest} is not complete .* using step-`))
    expect(timeless(await rows(join(cwd, 'stopped'), 'metrics.jsonl'))).toEqual(whole)
  })

  it('does not say that it can go on when it could not be taken up', async () => {
    await cp(join(cwd, 'stopped'), join(cwd, 'cut'), { recursive: true })
    await truncate(join(cwd, 'cut', 'metrics.jsonl'), 10)
    const { code, out, err } = await selfplay(['train', 'length-ratio', '--resume', 'cut'], { cwd })
    expect([code, err]).toEqual([1, expect.stringContaining('metrics.jsonl has 10 bytes')])
    expect(out).not.toMatch(/^stopped|^go on/m)
  })

  it('names update, agent and learning rate when weights are broken, and saves them no more', async () => {
    const broken = [...small, '--output', 'broken', '--learning-rate', '1e30']
    const { code, out, err } = await selfplay(broken, { cwd })
    expect([code, err.replaceAll(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringMatching(/update 2, agent \d, row .*log-prob.* begin anew with a lower learning rate than 1e\+30/),
    ])
    expect(out).not.toMatch(/^stopped|^go on/m)
    expect(await readdir(join(cwd, 'broken'))).not.toContain('checkpoints')
  })

  it('does not say that it can go on when its folder was moved', async () => {
    let moved = false
    const { code, out, err } = await selfplay([...small, '--output', 'away', '--checkpoint-every', '1'], {
      cwd,
      onOut: (text) => {
        if (moved || !/update 2\//.test(text)) return
        moved = true
        renameSync(join(cwd, 'away'), join(cwd, 'away-2'))
      },
    })
    expect([code, err.replaceAll(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringContaining('is gone: it was moved or deleted'),
    ])
    expect(out).not.toMatch(/^stopped|^go on/m)
    expect(await readdir(cwd)).not.toContain('away')
  })

  it('refuses a damaged or newer note of its settings', async () => {
    const path = join(cwd, 'stopped', 'command.json')
    const text = await readFile(path, 'utf8')
    const resume = async (content: string) => {
      await writeFile(path, content)
      return (await selfplay(['train', 'length-ratio', '--resume', 'stopped'], { cwd })).err
    }
    expect(await resume('{')).toContain('not readable JSON')
    expect(await resume(text.replace('"formatVersion": 1', '"formatVersion": 9'))).toContain('format version 9')
    expect(await resume(text.replace('"epochs": 1', '"epochs": "x"'))).toMatch(/is damaged: settings\.epochs/)
  })
})
