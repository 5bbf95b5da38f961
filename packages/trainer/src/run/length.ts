import type { RunNotice } from './loop-session.js'

/** Settings that decide how long a run is, of all trainers. */
const LENGTHS = ['maxSteps', 'numTrainEpochs', 'steps', 'epochs'] as const

type Settings = Readonly<Record<string, unknown>>

const shown = (value: unknown): string => (value === null ? 'open' : JSON.stringify(value))

/**
 * What a person should know about a run that goes on to another end than it was begun with; null when it does not.
 *
 * With a constant learning rate the longer run is the one that this length would have been from the start. A linear or cosine
 * schedule depends on the length: the updates to come have the rates of the new one, those that are done keep theirs.
 *
 * @param step finished updates
 */
export function lengthNotice(saved: Settings, now: Settings, step: number): RunNotice<'length_changed'> | null {
  const changed = LENGTHS.filter((name) => name in now && JSON.stringify(saved[name]) !== JSON.stringify(now[name]))
  if (changed.length === 0) return null
  const changes = changed.map((name) => `${name} was ${shown(saved[name])} and is ${shown(now[name])}`).join(', ')
  const schedule = now['learningRateSchedule']
  const caveats = [
    ...(schedule === 'constant'
      ? []
      : [
          `from update ${step + 1} on the learning rate follows the ${String(schedule)} schedule of the new length, and the updates ` +
            'before have followed that of the old one',
        ]),
    ...(typeof now['rolloutBufferSize'] === 'number'
      ? ['nodes that were waiting in a buffer at an earlier end have been trained there']
      : []),
  ]
  const outcome =
    caveats.length === 0
      ? 'the run goes on as one that was begun like this'
      : `the run is not quite one that was begun like this: ${caveats.join('; ')}`
  return { code: 'length_changed', level: 'info', message: `${changes}; ${outcome}` }
}

/** That there was nothing left to do. @param how the setting to raise, with its value */
export const finishedNotice = (step: number, how: string): RunNotice<'already_finished'> => ({
  code: 'already_finished',
  level: 'info',
  message: `the run has had all of its updates (${step}): to lengthen it, resume with more than ${how}`,
})
