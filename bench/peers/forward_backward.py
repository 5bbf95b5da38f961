"""Forward and backward of a causal model in eager PyTorch: the summed cross entropy of every token."""

import time

from side import serve, torch_versions


def open_side(settings, threads):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(settings["folder"], dtype=torch.float32)
    ids = torch.tensor(settings["ids"])
    tokens, targets = ids[:, :-1], ids[:, 1:]

    def run():
        model.zero_grad(set_to_none=True)
        started = time.perf_counter()
        logits = model(input_ids=tokens, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        loss.backward()
        return time.perf_counter() - started, {"loss": loss.item()}

    return run


serve(open_side, torch_versions("transformers"))
