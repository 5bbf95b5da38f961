/** Which format a model was trained with, by its name; the first line that matches counts. */
const MODELS: readonly (readonly [pattern: RegExp, renderer: string])[] = [
  [/DeepSeek-R1-Distill/i, ''],
  [/(Qwen|Llama|gemma|SmolLM)[\w.-]*-(Base|pt)\b/i, 'role_colon'],
  [/Qwen3-[\w.-]*Instruct/i, 'qwen3_instruct'],
  [/Qwen3-(VL|Coder|Next|Omni|Embedding|Reranker)/i, ''],
  [/Qwen3-/i, 'qwen3'],
  [/Qwen2(\.5)?-[\w.-]*(VL|Audio|Omni)/i, ''],
  [/Qwen2(\.5)?-[\w.-]*Instruct/i, 'chatml'],
  [/Qwen2(\.5)?-/i, 'role_colon'],
  [/Llama-3\.[123]-[\w.-]*Vision/i, ''],
  [/Llama-3\.[123]-[\w.-]*Instruct/i, 'llama3_1'],
  [/Llama-3-[\w.-]*Instruct/i, 'llama3'],
  [/Llama-3(\.[123])?-/i, 'role_colon'],
  [/DeepSeek-R1/i, 'deepseekv3_thinking'],
  [/DeepSeek-V3\.\d/i, ''],
  [/DeepSeek-V3-Base/i, 'role_colon'],
  [/DeepSeek-V3/i, 'deepseekv3'],
  [/Kimi-K2/i, 'kimi_k2'],
  [/gpt-oss/i, 'gpt_oss_medium'],
  [/gemma-3-[\w.-]*it\b/i, 'gemma3'],
]

/**
 * The renderer that a model was trained with, by its hub name or the name of its folder.
 *
 * @returns `undefined` for models that are not known to fit one of the built-in formats
 */
export function recommendedRenderer(model: string): string | undefined {
  const name = MODELS.find(([pattern]) => pattern.test(model))?.[1]
  return name === '' ? undefined : name
}
