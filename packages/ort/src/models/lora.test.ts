import { expect, it } from 'vitest'
import { checkLora, LORA_DEFAULTS, type LoraOptions } from './lora.js'

it('an option of an adapter that is undefined takes its default, like one that is left out', () => {
  const unset = { rank: undefined, alpha: undefined, targets: undefined } as unknown as Partial<LoraOptions>
  expect(checkLora(unset)).toEqual(LORA_DEFAULTS)
  expect(checkLora({ ...unset, rank: 4 })).toEqual({ ...LORA_DEFAULTS, rank: 4 })
})
