import type { TrainingClient } from '@selfplay/engine'

/** Clients that hold gradients of a step that was refused. Loading a state clears them. */
const holders = new WeakSet<TrainingClient>()

export const holdRefusedGradients = (client: TrainingClient): void => void holders.add(client)
export const holdsRefusedGradients = (client: TrainingClient): boolean => holders.has(client)
export const forgetRefusedGradients = (client: TrainingClient): boolean => holders.delete(client)
