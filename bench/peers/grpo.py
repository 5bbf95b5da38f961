"""TRL's GRPOTrainer: one policy, one pass over the prompts. Only train() is timed, as a whole and in its two parts."""

import gc
import re
import tempfile
import time

from side import serve, torch_versions


def resident_bytes():
    """Resident memory of this process now; NaN where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="utf8") as file:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1])
    except OSError:
        return float("nan")


def open_side(settings, threads):
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(threads)
    dataset = Dataset.from_list([{"prompt": prompt} for prompt in settings["prompts"]])
    tokenizer = AutoTokenizer.from_pretrained(settings["folder"])
    generations, new_tokens = settings["generations"], settings["newTokens"]

    def length(completions, **_):
        return [float(len(text)) for text in completions]

    class TimedTrainer(GRPOTrainer):
        """Counts the seconds of generating and scoring, and the tokens."""

        generating = 0.0
        tokens = 0

        def _generate_and_score_completions(self, inputs):
            started = time.perf_counter()
            outputs = super()._generate_and_score_completions(inputs)
            self.generating += time.perf_counter() - started
            self.tokens += int(outputs["completion_mask"].sum())
            return outputs

    class StepTimer(TrainerCallback):
        """Seconds from the begin of each step until the optimiser has made it."""

        stepping = 0.0

        def on_step_begin(self, *_, **__):
            self.started = time.perf_counter()

        def on_optimizer_step(self, *_, **__):
            self.stepping += time.perf_counter() - self.started

    def run():
        gc.collect()
        model = AutoModelForCausalLM.from_pretrained(settings["folder"], dtype=torch.float32)
        timer = StepTimer()
        with tempfile.TemporaryDirectory() as folder:
            trainer = TimedTrainer(
                model=model,
                reward_funcs=length,
                train_dataset=dataset,
                processing_class=tokenizer,
                callbacks=[timer],
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
            before = resident_bytes()
            started = time.perf_counter()
            trainer.train()
            seconds = time.perf_counter() - started
            return seconds, {
                "steps": trainer.state.global_step,
                "tokens": trainer.tokens,
                "generate": trainer.generating,
                "training": timer.stepping - trainer.generating,
                "before": before,
            }

    return run


serve(open_side, torch_versions("transformers", "trl"))
