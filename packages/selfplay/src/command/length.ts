import type { TrainTask } from '../tasks/index.js'

/** The settings that decide how many updates a run has. */
export interface RunLength {
  readonly epochs: number
  readonly promptsPerUpdate: number
  /** Most updates; null: as many as the epochs have. */
  readonly maxSteps: number | null
}

const perEpoch = ({ prompts }: Pick<TrainTask, 'prompts'>, { promptsPerUpdate }: RunLength): number =>
  Math.ceil(prompts.length / promptsPerUpdate)

/** Updates of a run. */
export function updatesOf(task: Pick<TrainTask, 'prompts'>, length: RunLength): number {
  const inEpochs = length.epochs * perEpoch(task, length)
  return Math.min(inEpochs, length.maxSteps ?? inEpochs)
}

/** The flags that give a run so many updates, as they are typed. */
export function lengthFlags(task: Pick<TrainTask, 'prompts'>, length: RunLength, updates: number): string {
  const epochs = Math.ceil(updates / perEpoch(task, length))
  return [
    ...(epochs > length.epochs ? [`--epochs ${epochs}`] : []),
    ...(length.maxSteps !== null && length.maxSteps < updates ? [`--max-steps ${updates}`] : []),
  ].join(' ')
}
