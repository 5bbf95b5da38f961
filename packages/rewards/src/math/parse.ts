/** An expression. Names are variables; the constants are `pi` and `e`. */
export type Expression =
  | { readonly type: 'number'; readonly numeral: string }
  | { readonly type: 'constant'; readonly name: 'pi' | 'e' }
  | { readonly type: 'variable'; readonly name: string }
  | {
      readonly type: 'binary'
      readonly op: '+' | '-' | '*' | '/' | '^'
      readonly left: Expression
      readonly right: Expression
    }
  | { readonly type: 'mixed'; readonly whole: Expression; readonly fraction: Expression }
  | { readonly type: 'negate' | 'percent' | 'factorial' | 'group'; readonly of: Expression }
  | { readonly type: 'call'; readonly name: FunctionName; readonly of: Expression }
  | { readonly type: 'root'; readonly index: Expression; readonly of: Expression }

/** `log` has base 10, `ln` base e. */
const FUNCTIONS = ['sqrt', 'abs', 'exp', 'ln', 'log', 'sin', 'cos', 'tan'] as const
export type FunctionName = (typeof FUNCTIONS)[number]

const isFunction = (name: string): name is FunctionName => (FUNCTIONS as readonly string[]).includes(name)

/** Longest text and deepest nesting that is read. */
const MAX_LENGTH = 2000
const MAX_DEPTH = 60
/** Largest exponent of ten in a numeral. */
const MAX_EXPONENT = 400

const GREEK =
  'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau phi chi psi omega'.split(' ')
const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹'
const two: Expression = { type: 'number', numeral: '2' }

/** Text that is no expression. */
class Unreadable extends Error {}

/**
 * Reads an expression: numerals (`1,234.5`, `1e-3`, `50%`, `1 1/2`), `+ - * / ^ !`, parentheses, |x|, implicit products (`2x`,
 * `2(x+1)`), functions, `pi`, `e`, variables of one letter, and the LaTeX for the same (`\frac{1}{2}`, `\sqrt[3]{x}`, `\cdot`).
 *
 * Precedence, tightest first: `!` and `%`; `^` (from the right); products, written or implicit, and quotients (from the
 * left, so `1/2x` is x/2); sums. A minus in front binds looser than `^`.
 *
 * @returns undefined for text that is none. Never throws; takes time linear in the text.
 */
export function parseExpression(text: string): Expression | undefined {
  if (text.length > MAX_LENGTH) return undefined
  try {
    return new Parser(plain(text)).parse()
  } catch (error) {
    if (error instanceof Unreadable) return undefined
    throw error
  }
}

/** Spelling variants brought to one: other signs for the operators, LaTeX spacing and dollar signs dropped. */
function plain(text: string): string {
  return text
    .replace(/\\(?:left|right)(?![A-Za-z])|\\[,;:! ]|\\?\$|[€£¥]/g, ' ')
    .replace(/\\(?:cdot|times)(?![A-Za-z])|[×·∙]|\*\*/g, (sign) => (sign === '**' ? '^' : '*'))
    .replace(/\\div(?![A-Za-z])|[÷∕⁄]/g, '/')
    .replace(/[−–]/g, '-')
    .replace(/\\%/g, '%')
    .replace(/\\[dt]frac(?![A-Za-z])/g, '\\frac')
    .replace(/√/g, ' sqrt ')
    .replace(/π/g, ' pi ')
    .replace(
      new RegExp(`[${SUPERSCRIPTS}]+`, 'g'),
      (run) =>
        `^(${run
          .split('')
          .map((c) => SUPERSCRIPTS.indexOf(c))
          .join('')})`,
    )
    .trim()
}

class Parser {
  readonly #text: string
  #at = 0
  #depth = 0
  /** Inside |...|, where a bar closes. */
  #bars = 0

  constructor(text: string) {
    this.#text = text
  }

  parse(): Expression {
    const result = this.#sum()
    if (this.#peek() === '.' && this.#at === this.#text.length - 1) this.#at++ // the end of a sentence
    if (this.#peek() !== '') throw new Unreadable()
    return result
  }

  /** The next character that is no blank, '' at the end. */
  #peek(): string {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at++
    return this.#text[this.#at] ?? ''
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false
    this.#at++
    return true
  }

  #need(character: string): void {
    if (!this.#take(character)) throw new Unreadable()
  }

  /** What matches here, after blanks; nothing is taken if it does not. */
  #match(pattern: RegExp): string | undefined {
    this.#peek()
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found !== undefined) this.#at += found.length
    return found
  }

  #sum(): Expression {
    if (++this.#depth > MAX_DEPTH) throw new Unreadable()
    let left = this.#product()
    for (let op = this.#peek(); op === '+' || op === '-'; op = this.#peek()) {
      this.#at++
      left = { type: 'binary', op, left, right: this.#product() }
    }
    this.#depth--
    return left
  }

  #product(): Expression {
    let left = this.#signed()
    for (;;) {
      const next = this.#peek()
      if (next === '*' || next === '/') {
        this.#at++
        left = { type: 'binary', op: next, left, right: this.#signed() }
      } else if (/[A-Za-z(\\]/.test(next) && !this.#startsWith('\\right')) {
        left = { type: 'binary', op: '*', left, right: this.#power() }
      } else return left
    }
  }

  #startsWith(word: string): boolean {
    return this.#text.startsWith(word, this.#at)
  }

  #signed(): Expression {
    let negative = false
    for (let sign = this.#peek(); sign === '-' || sign === '+'; sign = this.#peek()) {
      this.#at++
      if (sign === '-') negative = !negative
    }
    const of = this.#power()
    return negative ? { type: 'negate', of } : of
  }

  #power(): Expression {
    const left = this.#postfix()
    if (!this.#take('^')) return left
    if (++this.#depth > MAX_DEPTH) throw new Unreadable()
    const right = this.#peek() === '{' ? this.#argument() : this.#signed()
    this.#depth--
    return { type: 'binary', op: '^', left, right }
  }

  #postfix(): Expression {
    let of = this.#atom()
    for (;;) {
      if (this.#take('!')) of = { type: 'factorial', of }
      else if (this.#take('%')) of = { type: 'percent', of }
      else return of
    }
  }

  #atom(): Expression {
    const next = this.#peek()
    if (/[\d.]/.test(next)) return this.#number()
    if (this.#take('(')) {
      const of = this.#closed(')')
      return { type: 'group', of }
    }
    if (next === '{') return { type: 'group', of: this.#argument() }
    if (next === '|' && this.#bars === 0) {
      this.#at++
      this.#bars++
      const of = this.#closed('|')
      this.#bars--
      return { type: 'call', name: 'abs', of }
    }
    return this.#named()
  }

  #closed(end: string): Expression {
    const of = this.#sum()
    this.#need(end)
    return of
  }

  #number(): Expression {
    const numeral = this.#match(
      /(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?/y,
    )
    if (numeral === undefined) throw new Unreadable()
    if (Math.abs(Number(/[eE](.*)$/.exec(numeral)?.[1] ?? 0)) > MAX_EXPONENT) throw new Unreadable()
    const whole: Expression = { type: 'number', numeral: numeral.replaceAll(',', '') }
    if (!/^\d+$/.test(whole.numeral)) return whole
    const fraction = this.#fractionAfter()
    return fraction ? { type: 'mixed', whole, fraction } : whole
  }

  /** The fraction of a mixed number: `1 1/2`, `1\frac{1}{2}`. */
  #fractionAfter(): Expression | undefined {
    const found =
      this.#match(/(?<=\d\s+)\d+\s*\/\s*\d+(?![\d.,])/y) ?? this.#match(/\\frac\s*\{\s*\d+\s*\}\s*\{\s*\d+\s*\}/y)
    if (found === undefined) return undefined
    const [top, bottom] = found.match(/\d+/g)!
    return divide({ type: 'number', numeral: top! }, { type: 'number', numeral: bottom! })
  }

  #named(): Expression {
    const word = this.#match(/\\[A-Za-z]+|[A-Za-z]+/y)
    if (word === undefined) throw new Unreadable()
    const name = word.replace('\\', '')
    if (word === '\\frac') return { type: 'group', of: divide(this.#argument(), this.#argument()) }
    if (name === 'pi' || isFunction(name)) return this.#known(name)
    if (word.startsWith('\\')) {
      if (!GREEK.includes(name)) throw new Unreadable()
      return { type: 'variable', name }
    }
    // Letters side by side are a product, after a function or pi (`sinx`, `pir`): take the first factor.
    const prefix = ['pi', ...FUNCTIONS].find((known) => word.startsWith(known))
    this.#at -= word.length - (prefix ?? ' ').length
    if (prefix !== undefined) return this.#known(prefix)
    const letter = word[0]!
    return letter === 'e' ? { type: 'constant', name: 'e' } : { type: 'variable', name: letter }
  }

  #known(name: string): Expression {
    if (name === 'sqrt') return this.#root()
    return isFunction(name) ? this.#call(name) : { type: 'constant', name: 'pi' }
  }

  #root(): Expression {
    const index = this.#take('[') ? this.#closed(']') : two
    return { type: 'root', index, of: this.#operand() }
  }

  #call(name: FunctionName): Expression {
    const exponent = this.#take('^') ? this.#argument() : undefined
    const call: Expression = { type: 'call', name, of: this.#operand() }
    return exponent ? { type: 'binary', op: '^', left: call, right: exponent } : call
  }

  /** What a function without LaTeX braces is applied to: a group, or what binds tighter than a product. */
  #operand(): Expression {
    if (++this.#depth > MAX_DEPTH) throw new Unreadable()
    const next = this.#peek()
    const of = next === '{' ? this.#argument() : next === '(' ? this.#atom() : this.#power()
    this.#depth--
    return of
  }

  /** An argument of a LaTeX command: a group in braces, or one digit or letter. */
  #argument(): Expression {
    if (this.#take('{')) return this.#closed('}')
    const one = this.#match(/[0-9A-Za-z]/y)
    if (one === undefined) throw new Unreadable()
    if (/\d/.test(one)) return { type: 'number', numeral: one }
    return one === 'e' ? { type: 'constant', name: 'e' } : { type: 'variable', name: one }
  }
}

const divide = (left: Expression, right: Expression): Expression => ({ type: 'binary', op: '/', left, right })

/**
 * Whether an expression is a numeral and no computation: 12, -1/2, 1 1/2, 50%, 1.5*10^3.
 */
export function isNumeral(expression: Expression): boolean {
  switch (expression.type) {
    case 'number':
    case 'mixed':
      return true
    case 'negate':
    case 'group':
      return isNumeral(expression.of)
    case 'percent':
      return isNumeral(expression.of)
    case 'binary':
      if (expression.op === '/') return isInteger(expression.left) && isInteger(expression.right)
      return expression.op === '*' && isSignedNumber(expression.left) && isPowerOfTen(expression.right)
    default:
      return false
  }
}

const isSignedNumber = (expression: Expression): boolean =>
  expression.type === 'number' || (expression.type === 'negate' && expression.of.type === 'number')

const isInteger = (expression: Expression): boolean =>
  expression.type === 'negate' || expression.type === 'group'
    ? isInteger(expression.of)
    : expression.type === 'number' && /^\d+$/.test(expression.numeral)

const isPowerOfTen = (expression: Expression): boolean =>
  expression.type === 'binary' &&
  expression.op === '^' &&
  expression.left.type === 'number' &&
  expression.left.numeral === '10' &&
  isInteger(expression.right)
