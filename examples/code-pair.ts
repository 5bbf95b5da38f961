/**
 * A program by two agents: one writes a helper function, the other the main function that calls it, neither seeing the other's
 * code. Both functions run together on test cases in a sandbox (QuickJS); in the second turn each agent is told what failed.
 *
 *   npm run example examples/code-pair.ts                                             # grades pairs written by hand
 *   npm run example -- examples/code-pair.ts ./Qwen2.5-Coder-0.5B --lora-rank 16      # trains a model that writes code
 *
 * The bundled model has never seen code: every answer of it would earn nothing, and equal rewards teach nothing.
 */
import {
  createSandbox,
  extract,
  loadAgents,
  MAGRPOTrainer,
  perAnswer,
  runFolderName,
  stripControls,
  verifyCode,
  type CodeCase,
  type ExternalTransition,
  type Formatter,
} from 'selfplay'
import './explain-failures.js'
import { readOptions } from './read-options.js'

const { values, positionals } = readOptions(
  [
    'A helper and a main function by two agents, run on test cases in a sandbox. Without an argument it grades pairs written by',
    'hand; give a model that writes code as the argument to train it.',
  ],
  {
    output: { type: 'string', default: `runs/${runFolderName('code-pair', new Date())}`, help: 'folder of the run' },
    'lora-rank': {
      type: 'string',
      help: 'train adapters of this rank on one shared model, instead of all weights',
      number: true,
    },
    'max-steps': { type: 'string', default: '100', help: 'most updates', number: true },
  },
)

// ---- The tasks: two functions each, with test cases that no prompt shows -------------------------------------------------

interface FunctionSpec {
  /** Name and parameters, as JavaScript has them. */
  readonly signature: string
  readonly does: string
  readonly cases: readonly CodeCase[]
}

interface Row {
  readonly prompt: string
  readonly helper: FunctionSpec
  readonly main: FunctionSpec
}

const trainDataset: Row[] = [
  {
    prompt: 'count the vowels of a text',
    helper: {
      signature: 'isVowel(letter)',
      does: 'says whether a letter is one of a, e, i, o, u, in either case',
      cases: [
        { args: ['a'], expected: true },
        { args: ['E'], expected: true },
        { args: ['x'], expected: false },
      ],
    },
    main: {
      signature: 'countVowels(text)',
      does: 'returns how many vowels a text has',
      cases: [
        { args: ['banana'], expected: 3 },
        { args: ['rhythm'], expected: 0 },
        { args: ['AEIOU and y'], expected: 6 },
      ],
    },
  },
  {
    prompt: 'sum the squares of a list',
    helper: {
      signature: 'square(x)',
      does: 'returns the square of a number',
      cases: [
        { args: [3], expected: 9 },
        { args: [-2], expected: 4 },
      ],
    },
    main: {
      signature: 'sumOfSquares(numbers)',
      does: 'returns the sum of the squares of a list of numbers, 0 for an empty list',
      cases: [
        { args: [[1, 2, 3]], expected: 14 },
        { args: [[]], expected: 0 },
      ],
    },
  },
]

const nameOf = ({ signature }: FunctionSpec): string => signature.slice(0, signature.indexOf('('))

// ---- What each agent is asked --------------------------------------------------------------------------------------------

const ask = (spec: FunctionSpec, more = ''): string =>
  `// JavaScript. Write the function ${spec.signature}: it ${spec.does}.${more}\nfunction ${spec.signature} {\n`

const helperWriter: Formatter<Row> = ({ row, prompt, turn }) => (turn === 1 ? ask(row.helper) : prompt)
const mainWriter: Formatter<Row> = ({ row, prompt, turn }) => (turn === 1 ? ask(row.main, hint(row)) : prompt)
const hint = ({ helper }: Row): string =>
  ` There is already a function ${helper.signature} that ${helper.does}: call it, and do not define it.`

// ---- The grade of a pair: both functions as one program, in the sandbox --------------------------------------------------

const sandbox = createSandbox({ timeoutMs: 500 })
const codeIn = extract.firstOf(extract.fenced(['js', 'javascript', '']), extract.whole())

/** A whole function: what was written, between the line that the prompt began and the brace that ends the answer. */
function functionOf(spec: FunctionSpec, text: string): string {
  const found = codeIn(text)
  const code = found.ok ? found.text : ''
  return code.includes(`function ${nameOf(spec)}`) ? code : `function ${spec.signature} {\n${code}\n}`
}

async function grade({ helper, main }: Row, [first = '', second = '']: readonly string[], signal?: AbortSignal) {
  const options = { sandbox, ...(signal && { signal }) }
  const [ofHelper, ofMain] = [functionOf(helper, first), functionOf(main, second)]
  const alone = await verifyCode(ofHelper, { name: nameOf(helper), cases: helper.cases }, options)
  const together = await verifyCode(`${ofHelper}\n${ofMain}`, { name: nameOf(main), cases: main.cases }, options)
  const calls = ofMain.includes(`${nameOf(helper)}(`) && !ofMain.includes(`function ${nameOf(helper)}`)
  // A main function that does not need the helper is not what was asked: half of its grade is for calling it.
  const reward = 0.3 * alone.score + 0.7 * together.score * (calls ? 1 : 0.5)
  return { reward, alone, together, calls }
}

const rewardFunc = perAnswer<Row>(async ({ row, completions }, { signal }) => {
  return (await grade(row, completions, signal)).reward
})

// ---- Feedback for the second turn: what failed, never the test cases themselves ------------------------------------------

const report: ExternalTransition<Row> = async ({ row, agentCompletions }, { signal }) => {
  const { alone, together, calls } = await grade(row, agentCompletions, signal)
  const of = (score: number, reason: string) => `// It passed ${Math.round(100 * score)} % of the tests (${reason}).\n`
  return [
    of(alone.score, alone.reason) + ask(row.helper),
    of(together.score, together.reason) + (calls ? '' : '// It did not call the helper.\n') + ask(row.main, hint(row)),
  ]
}

// ---- Without a model: pairs written by hand ------------------------------------------------------------------------------

async function gradeByHand(): Promise<void> {
  const [vowels] = trainDataset as [Row, ...Row[]]
  const helper = 'return "aeiou".includes(letter.toLowerCase())'
  const pairs: [string, string[]][] = [
    ['both right', [helper, 'return [...text].filter((c) => isVowel(c)).length']],
    ['main does it all by itself', [helper, 'return (text.match(/[aeiou]/gi) ?? []).length']],
    [
      'helper forgets capitals',
      ['return "aeiou".includes(letter)', 'return [...text].filter((c) => isVowel(c)).length'],
    ],
    ['main never ends', [helper, 'for (;;) isVowel("a")']],
    ['no code at all', ['Once upon a time', 'there was a function.']],
  ]
  for (const [title, texts] of pairs) {
    const { reward, alone, together } = await grade(vowels, texts)
    console.log(`${title.padEnd(27)} reward ${reward.toFixed(2)}  helper: ${alone.reason}, main: ${together.reason}`)
  }
  console.log('to train: npm run example -- examples/code-pair.ts ./Qwen2.5-Coder-0.5B --lora-rank 16')
}

// ---- With a model: training ----------------------------------------------------------------------------------------------

async function train(model: string): Promise<void> {
  const rank = values['lora-rank']
  const agents = await loadAgents(
    model,
    2,
    rank === undefined ? {} : { mode: 'adapters', lora: { rank: Number(rank) } },
  )
  const trainer = new MAGRPOTrainer<Row>({
    agents,
    formatters: [helperWriter, mainWriter],
    externalTransition: report,
    rewardFunc,
    trainDataset,
    config: {
      numTurns: 2,
      numGenerations: 4,
      maxSteps: Number(values['max-steps']),
      numTrainEpochs: 1000,
      maxNewTokens: 128,
      stop: ['\n}'],
      agentLearningRate: 2e-5,
      earlyTerminationThreshold: 0.95,
    },
    run: values.output,
    onNotice: ({ message }) => console.log(stripControls(message)),
  })
  for await (const { step, totalSteps, turnRewardMeans } of trainer.updates()) {
    console.log(`update ${step}/${totalSteps}  rewards ${turnRewardMeans.map((x) => x.toFixed(2)).join(', ')}`)
  }
  console.log(`the agents are in ${values.output}; every program: npx selfplay inspect ${values.output}`)
}

const [model] = positionals
await (model === undefined ? gradeByHand() : train(model))
await sandbox.close()
