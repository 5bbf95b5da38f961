"""TRL's GRPOTrainer: one policy, one pass over the prompts. Only train() is timed."""

import tempfile
import time

from side import serve, torch_versions


def open_side(settings, threads):
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(threads)
    dataset = Dataset.from_list([{"prompt": prompt} for prompt in settings["prompts"]])
    tokenizer = AutoTokenizer.from_pretrained(settings["folder"])
    generations, new_tokens = settings["generations"], settings["newTokens"]

    def length(completions, **_):
        return [float(len(text)) for text in completions]

    def run():
        model = AutoModelForCausalLM.from_pretrained(settings["folder"], dtype=torch.float32)
        with tempfile.TemporaryDirectory() as folder:
            trainer = GRPOTrainer(
                model=model,
                reward_funcs=length,
                train_dataset=dataset,
                processing_class=tokenizer,
                args=GRPOConfig(
                    output_dir=folder,
                    use_cpu=True,
                    bf16=False,
                    fp16=False,
                    gradient_checkpointing=False,
                    disable_tqdm=True,
                    report_to="none",
                    save_strategy="no",
                    num_train_epochs=1,
                    per_device_train_batch_size=generations,
                    num_generations=generations,
                    max_completion_length=new_tokens,
                    learning_rate=5e-6,
                    temperature=1.0,
                    top_k=0,
                    top_p=1.0,
                    logging_steps=1000,
                ),
            )
            started = time.perf_counter()
            trainer.train()
            return time.perf_counter() - started, {"steps": trainer.state.global_step}

    return run


serve(open_side, torch_versions("transformers", "trl"))
