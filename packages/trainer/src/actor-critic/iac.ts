import { refuseUnknown } from '../magrpo/check-task.js'
import { MAGRPOTrainer, type MAGRPOTrainerOptions } from '../magrpo/trainer.js'
import type { PromptRow } from '../magrpo/types.js'
import { iacConfigSchema, resolveCommon, splitConfig, type CriticSettings, type IACConfig } from './config.js'
import { criticPerAgent, type AgentCritic } from './critics.js'
import { criticExtension } from './extension.js'

export interface IACTrainerOptions<Row extends PromptRow> extends Omit<
  MAGRPOTrainerOptions<Row>,
  'config' | 'centralized'
> {
  readonly config?: IACConfig
  /**
   * A critic for each agent, [agent]; null for agents that are not trained. The same critic twice is one. Default: the agents
   * judge themselves, with the value heads that `loadActorCritics` gives them; one optimiser step is then for both.
   */
  readonly critics?: readonly (AgentCritic | null)[]
}

/**
 * Independent actor-critic: each agent learns from a critic that sees what it sees. The target of an answer is its reward plus
 * `discount` times the critic's value of the next turn; the advantage is the target less what the critic expected.
 *
 * Everything else (trees, early endings, rewards, runs, resume, evaluation) is as of {@link MAGRPOTrainer}.
 *
 * @throws ConfigError, DatasetError at construction for anything that cannot work.
 */
export class IACTrainer<Row extends PromptRow> extends MAGRPOTrainer<Row> {
  readonly criticSettings: CriticSettings

  constructor(options: IACTrainerOptions<Row>) {
    refuseUnknown(options, ['critics'])
    const { critics, config = {}, ...rest } = options
    const split = splitConfig(iacConfigSchema, config)
    super(
      { ...rest, config: resolveCommon(split, options.agents.length) },
      criticExtension({
        trainer: 'IAC',
        settings: split.critic,
        critics: (table) => criticPerAgent(table, critics),
        shared: false,
      }),
    )
    this.criticSettings = split.critic
  }
}
