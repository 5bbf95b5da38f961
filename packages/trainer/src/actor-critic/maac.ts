import { refuseUnknown } from '../magrpo/check-task.js'
import { MAGRPOTrainer, type MAGRPOTrainerOptions } from '../magrpo/trainer.js'
import type { PromptRow } from '../magrpo/types.js'
import { maacConfigSchema, resolveCommon, splitConfig, type CriticSettings, type MAACConfig } from './config.js'
import { sharedCritic, type AgentCritic } from './critics.js'
import { criticExtension } from './extension.js'

export interface MAACTrainerOptions<Row extends PromptRow> extends Omit<
  MAGRPOTrainerOptions<Row>,
  'config' | 'centralized'
> {
  readonly config?: MAACConfig
  /** Reads what all agents are shown (and answer, with `q`) as one text. */
  readonly critic: AgentCritic
}

/**
 * Multi-agent actor-critic: agents that see only their own prompts learn from one critic that sees them all. With rewards of
 * their own for each agent, the critic learns the mean.
 *
 * Everything else is as of {@link IACTrainer}.
 *
 * @throws ConfigError, DatasetError at construction for anything that cannot work.
 */
export class MAACTrainer<Row extends PromptRow> extends MAGRPOTrainer<Row> {
  readonly criticSettings: CriticSettings

  constructor(options: MAACTrainerOptions<Row>) {
    refuseUnknown(options, ['critic'])
    const { critic, config = {}, ...rest } = options
    const split = splitConfig(maacConfigSchema, config)
    super(
      { ...rest, config: resolveCommon(split, options.agents.length) },
      criticExtension({
        trainer: 'MAAC',
        settings: split.critic,
        critics: (table) => [sharedCritic(table, critic)],
        shared: true,
      }),
    )
    this.criticSettings = split.critic
  }
}
