"""Computes the expected answers of demo.gguf, in float32 on its dequantised weights, and checks them against llama.cpp.

    python3 golden.py --checkpoint checkpoint/ --tokenizer tokenizer.json     # writes golden.json and golden_logits.npy

golden.json: for each prompt its ids, 40 greedily chosen ids and, for each choice, the margin between the best and the
second best logit (a runtime with rounding of its own may differ where the margin is small).
golden_logits.npy: float32 [prompts, vocabulary], the logits after the last token of each prompt.
With --checkpoint the unquantised weights must also reproduce the logits that the trainer saved.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np
import tokenizers
import torch

from export import deinterleave, gguf_name
from train import CONFIG, Llama

PROMPTS = ["One morning Mara went to the tide pool with", "Once upon a time there was an octopus", "Every night there was a strange noise in the library.",
           "Question: What does a crab eat?\nAnswer:", "Dear Otto,\n", "In winter the lighthouse"]
STEPS = 40


def load(model, tensors):
    """Fills the model from {Hugging Face name: array}."""
    state = {name: torch.from_numpy(np.array(tensors("model." + name), dtype=np.float32)) for name, _ in model.named_parameters()}
    model.load_state_dict(state)
    return model.eval()


def from_gguf(path):
    """The tensors of the file, dequantised and in the trainer's row order."""
    stored = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}

    def tensor(name):
        weight = stored[gguf_name(name)]
        if name.endswith("q_proj.weight"):
            return deinterleave(weight, CONFIG["num_attention_heads"])
        if name.endswith("k_proj.weight"):
            return deinterleave(weight, CONFIG["num_key_value_heads"])
        return weight

    return tensor


@torch.no_grad()
def logits_of(model, ids):
    return model(torch.tensor([ids]))[0].numpy()


def greedy(model, ids):
    """Chosen ids and their margins; the rule at the end of a text is to go on, so that the length is always STEPS."""
    chosen, margins = [], []
    for _ in range(STEPS):
        logits = logits_of(model, ids + chosen)[-1]
        second, best = np.argsort(logits)[-2:]
        chosen.append(int(best))
        margins.append(round(float(logits[best] - logits[second]), 4))
    return chosen, margins


def cosine(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def check_reference(folder):
    """The saved logits of the trainer against the unquantised weights; proves that the loading here is right."""
    weights, reference = np.load(folder / "weights.npz"), np.load(folder / "reference.npz")
    model = load(Llama(CONFIG), lambda name: weights[name])
    for i in range(len(reference.files) // 2):
        difference = np.abs(logits_of(model, reference[f"ids{i}"].tolist()) - reference[f"logits{i}"]).max()
        print(f"trainer text {i}: largest logit difference {difference:.2e}")


def check_llama_cpp(path, cases, model, tokenizer):
    """Prints how llama.cpp agrees: token ids, logits of every prompt position, greedy ids."""
    import llama_cpp

    other = llama_cpp.Llama(path, n_ctx=512, logits_all=True, verbose=False, n_threads=1)
    for case in cases:
        ids = other.tokenize(case["prompt"].encode(), add_bos=True, special=False)
        other.reset()
        other.eval(ids)
        theirs, ours = np.array(other.scores[: len(ids)]), logits_of(model, case["prompt_ids"])
        same_top = (theirs.argmax(-1) == ours.argmax(-1)).mean()
        continuation = []
        while len(continuation) < STEPS:
            continuation.append(int(other.scores[other.n_tokens - 1].argmax()))
            other.eval(continuation[-1:])
        agree = next((i for i in range(STEPS) if continuation[i] != case["greedy_ids"][i]), STEPS)
        print(f"llama.cpp {case['prompt']!r}: same ids {ids == case['prompt_ids']}, cosine {cosine(theirs, ours):.6f}, "
              f"same best token {100 * same_top:.0f} %, greedy equal for {agree} of {STEPS}"
              + ("" if agree == STEPS else f" (margin there {case['margins'][agree]})"))
    for case in cases:
        other.reset()
        result = other(case["prompt"], max_tokens=70, temperature=0.8, top_k=40, seed=1)
        print(f"--- temperature 0.8: {case['prompt']}{result['choices'][0]['text']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="demo.gguf")
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--checkpoint")
    parser.add_argument("--llama-cpp", action="store_true", help="compare with llama.cpp (pip package llama-cpp-python)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.checkpoint:
        check_reference(pathlib.Path(args.checkpoint))
    tokenizer = tokenizers.Tokenizer.from_file(args.tokenizer)
    model = load(Llama(CONFIG), from_gguf(args.model))
    cases, last = [], []
    for prompt in PROMPTS:
        ids = [CONFIG["bos_token_id"], *tokenizer.encode(prompt).ids]
        chosen, margins = greedy(model, ids)
        last.append(logits_of(model, ids)[-1])
        cases.append({"prompt": prompt, "prompt_ids": ids, "greedy_ids": chosen, "margins": margins,
                      "text": tokenizer.decode(chosen, skip_special_tokens=False)})
        print(f"--- greedy: {prompt}{cases[-1]['text']}")
    here = pathlib.Path(args.model).parent
    np.save(here / "golden_logits.npy", np.array(last, dtype=np.float32))
    lines = ",\n ".join(json.dumps(case) for case in cases)
    (here / "golden.json").write_text(f'{{"model": "{pathlib.Path(args.model).name}", "cases": [\n {lines}\n]}}\n')
    if args.llama_cpp:
        check_llama_cpp(args.model, cases, model, tokenizer)


if __name__ == "__main__":
    main()
