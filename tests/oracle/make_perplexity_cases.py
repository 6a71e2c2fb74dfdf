#!/usr/bin/env python3
"""Write tests/data/perplexity_cases.json: what transformers says of a text with examples/demo_model/demo.gguf, window
by window as its page "Perplexity of fixed-length models" does it.

    pip install torch transformers gguf accelerate
    make_perplexity_cases.py examples/demo_model/demo.gguf tests/data
"""
import json
import pathlib
import sys

import torch
import transformers

TEXT = """One morning Mara went to the tide pool with her brother Carl. The water was clear and cold, and a small crab sat under a
round stone. "Look," said Mara, "it has lost a claw." They looked everywhere for the claw, beneath the ledge and in a crack in
the rock, but the tide was coming in and they had to go home.

In winter the lighthouse was quiet. Otto wrote a letter to his sister every night. He told her about the fish, about the storm,
and about the strange noise in the library, which turned out to be an octopus that wanted to read.
"""
WINDOWS = [(512, 512), (64, 64), (64, 32), (48, 7), (40, 1), (17, 17)]


@torch.no_grad()
def nats(model, ids, context, stride):
    total, count, seen, windows = 0.0, 0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        window = torch.tensor([ids[begin:end]])
        labels = window.clone()
        labels[:, :-(end - seen)] = -100
        # The model's own loss: a mean over labels that are shifted by one, so the first of a window never counts.
        kept = int((labels[:, 1:] != -100).sum())
        if kept:
            total += float(model(window, labels=labels).loss) * kept
            count += kept
            windows += 1
        seen = end
        if end == len(ids):
            break
    return {"context": context, "stride": stride, "scored": count, "windows": windows, "nats": total / count}


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    where = dict(pretrained_model_name_or_path=str(source.parent), gguf_file=source.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    ids = [model.config.bos_token_id] + tokenizer.encode(TEXT, add_special_tokens=False)
    cases = {"text": TEXT, "ids": ids, "windows": [nats(model, ids, c, s) for c, s in WINDOWS]}
    (folder / "perplexity_cases.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
