/**
 * What the sandbox's worker runs, as the source of a CommonJS script: a worker made from text needs no file of its own, so it
 * works from sources, from a bundle and from an installed package alike.
 *
 * The worker holds QuickJS, compiled to WebAssembly. Each call gets a fresh runtime. Nothing of the host is put into it: the
 * arguments go in and the result comes out as JSON text, by functions taken before the program ran.
 */
export const workerSource = `
const { parentPort, workerData } = require('node:worker_threads')
const { getQuickJS } = require(workerData.quickjs)
const SETUP = ${JSON.stringify(`
(() => {
  const { parse, stringify } = JSON, { isFinite } = Number
  let state = 0x9e3779b9
  Math.random = () => {
    state ^= state << 13; state ^= state >>> 17; state ^= state << 5
    return (state >>> 0) / 4294967296
  }
  const nothing = () => {}
  globalThis.console = { log: nothing, info: nothing, warn: nothing, error: nothing, debug: nothing }
  return {
    parse,
    write: (value) => stringify(value, (_, inner) => {
      if (typeof inner === 'number' && !isFinite(inner)) throw new TypeError('the result holds a number that is not finite')
      return inner
    }),
  }
})()`)}

const fail = (kind, detail) => ({ ok: false, kind, detail: String(detail).slice(0, 500) })

function failure(context, error, deadline) {
  let thrown
  try { thrown = context.dump(error) } catch (problem) { thrown = problem }
  error.dispose()
  const isObject = typeof thrown === 'object' && thrown !== null
  const text = isObject ? (thrown.name || 'Error') + ': ' + thrown.message : 'threw ' + String(thrown)
  const internal = isObject && thrown.name === 'InternalError'
  if (internal && thrown.message === 'interrupted' && Date.now() > deadline) return fail('timeout', text)
  if (internal && /out of memory|stack overflow/.test(thrown.message)) return fail('memory', text)
  return fail(isObject && thrown.name === 'SyntaxError' ? 'syntax' : 'error', text)
}

function settle(runtime, context, handle, deadline) {
  for (;;) {
    const state = context.getPromiseState(handle)
    if (state.type === 'fulfilled') return state.notAPromise ? { value: handle } : { value: state.value }
    if (state.type === 'rejected') return { error: state.error }
    if (Date.now() > deadline) return { result: fail('timeout', 'the promise has not settled in time') }
    const jobs = runtime.executePendingJobs(64)
    if (jobs.error) return { error: jobs.error }
    if (jobs.value === 0) return { result: fail('error', 'the promise can never settle') }
  }
}

function call({ program, name, args, timeoutMs, memoryBytes, stackBytes }, QuickJS) {
  const deadline = Date.now() + timeoutMs
  const runtime = QuickJS.newRuntime()
  runtime.setMemoryLimit(memoryBytes)
  runtime.setMaxStackSize(stackBytes)
  runtime.setInterruptHandler(() => Date.now() > deadline)
  const context = runtime.newContext()
  const handles = []
  const keep = (handle) => { handles.push(handle); return handle }
  const step = (result) => {
    if (result.error) throw failure(context, result.error, deadline)
    return keep(result.value)
  }
  try {
    const setup = step(context.evalCode(SETUP, 'setup.js'))
    const parse = keep(context.getProp(setup, 'parse')), write = keep(context.getProp(setup, 'write'))
    const inputs = args.map((text) => step(context.callFunction(parse, context.undefined, keep(context.newString(text)))))
    step(context.evalCode(program, 'answer.js'))
    const target = step(context.evalCode(name, 'call.js'))
    if (context.typeof(target) !== 'function') return fail('error', name + ' is no function')
    const returned = step(context.callFunction(target, context.undefined, ...inputs))
    const settled = settle(runtime, context, returned, deadline)
    if (settled.result) return settled.result
    if (settled.error) return failure(context, settled.error, deadline)
    if (settled.value !== returned) keep(settled.value)
    const text = step(context.callFunction(write, context.undefined, settled.value))
    if (context.typeof(text) !== 'string') return fail('error', name + ' returned nothing that JSON can hold')
    return { ok: true, json: context.getString(text) }
  } catch (problem) {
    if (problem && problem.ok === false) return problem
    throw problem
  } finally {
    for (const handle of handles) if (handle.alive) handle.dispose()
    context.dispose()
    runtime.dispose()
  }
}

getQuickJS().then((QuickJS) => {
  parentPort.on('message', (request) => {
    parentPort.postMessage({ type: 'started' })
    let result
    try { result = call(request, QuickJS) } catch (problem) {
      // QuickJS itself gave up, as it does out of memory: this worker is of no further use
      parentPort.postMessage({ type: 'result', result: fail('memory', problem), broken: true })
      return
    }
    parentPort.postMessage({ type: 'result', result, broken: false })
  })
  parentPort.postMessage({ type: 'ready' })
}, (problem) => parentPort.postMessage({ type: 'failed', message: String(problem) }))
`
