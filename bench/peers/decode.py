"""Hugging Face generate: one prompt, many samples side by side."""

import time

from side import serve, torch_versions


def open_side(settings, threads):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(settings["folder"], dtype=torch.float32).eval()
    prompt = torch.tensor([settings["prompt"]])
    rows, new_tokens = settings["rows"], settings["newTokens"]

    @torch.inference_mode()
    def run():
        started = time.perf_counter()
        out = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            num_return_sequences=rows,
            max_new_tokens=new_tokens,
            pad_token_id=0,
        )
        seconds = time.perf_counter() - started
        return seconds, {"tokens": rows * (out.shape[1] - prompt.shape[1])}

    return run


serve(open_side, torch_versions("transformers"))
