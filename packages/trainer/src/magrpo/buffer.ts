import type { Random } from '@selfplay/env'
import type { Sample } from './datums.js'

/** What one policy may train on from one node. */
export interface BufferedNode {
  readonly envStep: number
  /** From 1. */
  readonly turn: number
  readonly samples: readonly Sample[]
}

/** The nodes of one turn that were drained together, and the optimiser steps that they make. */
export interface TurnGroup {
  readonly turn: number
  /** Nodes in the order that they were drawn in. */
  readonly nodes: readonly BufferedNode[]
  /** The nodes, shuffled, in chunks: one optimiser step each. */
  readonly chunks: readonly (readonly BufferedNode[])[]
}

/**
 * Collects nodes and gives them out, turn by turn, whenever it is full. What is left stays for the next tree, or until
 * {@link NodeBuffer.drain}.
 */
export class NodeBuffer {
  readonly size: number
  readonly batchSize: number
  private held: BufferedNode[]

  constructor(size: number, batchSize: number, held: readonly BufferedNode[] = []) {
    this.size = size
    this.batchSize = batchSize
    this.held = [...held]
  }

  /** The nodes waiting: plain data, part of a checkpoint. */
  get waiting(): readonly BufferedNode[] {
    return this.held
  }

  /** Adds a node; gives the groups to train on at once when that made the buffer full. */
  push(node: BufferedNode, random: Random): TurnGroup[] {
    this.held.push(node)
    return this.held.length >= this.size ? this.drain(random) : []
  }

  /** Empties the buffer: one group per turn, earliest turn first; within it the nodes are shuffled and cut into chunks. */
  drain(random: Random): TurnGroup[] {
    const nodes = this.held
    this.held = []
    const turns = [...new Set(nodes.map(({ turn }) => turn))].sort((a, b) => a - b)
    return turns.map((turn) => {
      const ofTurn = nodes.filter((node) => node.turn === turn)
      const shuffled = random.shuffle(ofTurn)
      const chunks: BufferedNode[][] = []
      for (let i = 0; i < shuffled.length; i += this.batchSize) chunks.push(shuffled.slice(i, i + this.batchSize))
      return { turn, nodes: ofTurn, chunks }
    })
  }
}
