"""MAGRPO as the reference implementation (CoMLRL) has it, one turn, in PyTorch: two agents, one joint reward.

Its ways are kept: what is sampled with a top-k filter is scored without, padding behind an answer's end counts as part of it,
the last column of a group is not scored. Only the updates are timed.
"""

import math
import time

from side import serve, torch_versions

TENTHS = 10


def length_ratio(first, second):
    if len(first) == 0:
        return 0.0
    ratio = len(second) / len(first)
    return math.exp(-max(2 - ratio, ratio - 3, 0))


def open_side(settings, threads):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(threads)
    generations, new_tokens = settings["generations"], settings["newTokens"]

    def answer(model, tokenizer, prompt):
        """Token ids [generations, tokens], padded with the end token, and the texts before it."""
        inputs = tokenizer(prompt, return_tensors="pt")
        model.eval()
        with torch.inference_mode():
            whole = model.generate(
                **inputs,
                do_sample=True,
                num_return_sequences=generations,
                max_new_tokens=new_tokens,
                temperature=1.0,
                top_p=1.0,
                top_k=settings["topK"],
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.eos_token_id,
            )
        ids = whole[:, inputs.input_ids.shape[1] :].clone()
        # Special tokens are dropped, the end token and the padding among them: nothing else can stand behind an end.
        return ids, tokenizer.batch_decode(ids, skip_special_tokens=True)

    def update(model, optimizer, prompt_ids, ids, advantages):
        model.train()
        whole = torch.cat([prompt_ids.expand(len(ids), -1), ids], dim=1)
        logits = model(input_ids=whole).logits[:, prompt_ids.shape[1] - 1 : -1]
        logprobs = logits.log_softmax(-1).gather(-1, ids[..., None])[:, :-1, 0]
        loss = -(logprobs.sum(1) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def learn(seed, folders):
        torch.manual_seed(seed)
        tokenizer = AutoTokenizer.from_pretrained(folders[0])
        models = [AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in folders]
        optimizers = [torch.optim.AdamW(model.parameters(), lr=settings["learningRate"]) for model in models]
        means = []
        started = time.perf_counter()
        for prompt in settings["prompts"] * settings["epochs"]:
            answers = [answer(model, tokenizer, prompt) for model in models]
            rewards = torch.tensor([length_ratio(*texts) for texts in zip(*(texts for _, texts in answers))])
            centred = rewards - rewards.mean()
            advantages = centred / centred.std(unbiased=False).clamp(min=1e-6)
            prompt_ids = tokenizer(prompt, return_tensors="pt").input_ids
            for model, optimizer, (ids, _) in zip(models, optimizers, answers):
                update(model, optimizer, prompt_ids, ids, advantages)
            means.append(rewards.mean().item())
        return time.perf_counter() - started, means

    def run():
        total, values = 0.0, {}
        for play in settings["plays"]:
            seed = play["seed"]
            seconds, means = learn(seed, play["folders"])
            size = len(means) // TENTHS
            for tenth in range(TENTHS):
                values[f"reward_{seed}_{tenth + 1}"] = sum(means[tenth * size : (tenth + 1) * size]) / size
            values[f"seconds_{seed}"] = seconds
            total += seconds
        return total, values

    return run


serve(open_side, torch_versions("transformers"))
