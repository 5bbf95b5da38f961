/** Clients that hold gradients of a step that was refused. Loading a state clears them. */
const holders = new WeakSet<object>()

export const holdRefusedGradients = (client: object): void => void holders.add(client)
export const holdsRefusedGradients = (client: object): boolean => holders.has(client)
export const forgetRefusedGradients = (client: object): boolean => holders.delete(client)
