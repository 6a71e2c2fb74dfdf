"""Trains the demo model with PyTorch and saves its weights under Hugging Face's tensor names.

    python3 train.py --tokenizer tokenizer.json --count 1200000 --minutes 7 -o checkpoint/

Writes weights.npz (float32), config.json and reference.npz (logits of the trained model on a few texts, for export.py).
A Llama with rotary embeddings in half-split order, SwiGLU, grouped queries and a tied head; the text never repeats
within an epoch, and every training row begins with <|bos|> as every prompt will.
"""
import argparse
import json
import math
import multiprocessing
import os
import pathlib
import time

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F
from torch import nn

import corpus

CONFIG = {"vocab_size": 2048, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 5, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 512,
          "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": True, "hidden_act": "silu", "model_type": "llama"}
TEXTS = ["Mara walked to the harbour.", "\"Where is my lantern?\" Tom asked. He looked", "Question: What does a crab eat?\nAnswer:",
         "In winter the lighthouse is a"]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.q_proj = nn.Linear(c["hidden_size"], self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(c["hidden_size"], self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(c["hidden_size"], self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, c["hidden_size"], bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, _ = x.shape

        def split(y, heads):
            return y.view(batch, tokens, heads, self.head_dim).transpose(1, 2)

        def rotate(y):  # half-split: dimension i turns with dimension i + head_dim / 2
            a, b = y.chunk(2, dim=-1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(y.dtype)

        q = rotate(split(self.q_proj(x), self.heads))
        k = rotate(split(self.k_proj(x), self.kv_heads))
        v = split(self.v_proj(x), self.kv_heads)
        repeat = self.heads // self.kv_heads
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(c["hidden_size"], eps=c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = nn.RMSNorm(c["hidden_size"], eps=c["rms_norm_eps"])
        self.mlp = Mlp(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(c["hidden_size"], eps=c["rms_norm_eps"])
        half = c["head_dim"] // 2
        frequencies = c["rope_theta"] ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.arange(c["max_position_embeddings"], dtype=torch.float32)[:, None] * frequencies
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * c["num_hidden_layers"]) if deep else 0.02)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def rows_of_block(job):
    """Token rows of one block of the corpus: each begins with a whole piece and goes on until it is full."""
    path, seed, index, length = job
    tokenizer = tokenizers.Tokenizer.from_file(path)
    rows, row = [], []
    for encoding in tokenizer.encode_batch(corpus.block((seed, index, corpus.BLOCK))):
        row += [CONFIG["bos_token_id"], *encoding.ids, CONFIG["eos_token_id"]]
        if len(row) >= length:
            rows.append(row[:length])
            row = []
    return np.array(rows, dtype=np.int16)


def dataset(path, seed, count, length, processes):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    jobs = [(path, seed, index, length) for index in range(max(1, count // corpus.BLOCK))]
    with multiprocessing.Pool(processes) as pool:
        return np.concatenate(list(pool.imap(rows_of_block, jobs, chunksize=4)))


def batch_loss(model, rows):
    rows = rows.long()
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def validate(model, rows, batch, device):
    losses = [batch_loss(model, rows[i : i + batch].to(device)).item() for i in range(0, len(rows) - batch + 1, batch)]
    return sum(losses) / len(losses)


def optimise(model, rows, held_out, args, device):
    """AdamW with a warm-up and a cosine that ends when the time or the steps are over."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.95), fused=device == "cuda")
    run = torch.compile(model) if device == "cuda" else model
    generator = torch.Generator().manual_seed(args.seed)
    order, place, step, shown = torch.randperm(len(rows), generator=generator), 0, 0, 0.0
    start = time.time()
    while True:
        done = max(step / args.steps, (time.time() - start) / (60 * args.minutes))
        if done >= 1:
            break
        rate = args.rate * min(1, (step + 1) / 300) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        if place + args.batch > len(order):
            order, place = torch.randperm(len(rows), generator=generator), 0
        chosen = order[place : place + args.batch].to(rows.device)
        place += args.batch
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = batch_loss(run, rows[chosen].to(device))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        if done - shown >= 0.05 or step == 1:
            shown = done
            tokens = step * args.batch * (rows.shape[1] - 1)
            print(f"{100 * done:5.1f} %  step {step}  {tokens / 1e6:.0f} M tokens  {time.time() - start:.0f} s  loss {loss.item():.4f}", flush=True)
    tokens = step * args.batch * (rows.shape[1] - 1)
    return {"steps": step, "tokens": tokens, "epochs": round(step * args.batch / len(rows), 2), "seconds": round(time.time() - start),
            "train_loss": validate(model, rows[: len(held_out)], args.batch, device),
            "validation_loss": validate(model, held_out, args.batch, device)}


@torch.no_grad()
def sample(model, tokenizer, prompt, device, count=80, temperature=0.7):
    ids = [CONFIG["bos_token_id"], *tokenizer.encode(prompt).ids]
    generator = torch.Generator().manual_seed(1)
    while count > 0 and ids[-1] != CONFIG["eos_token_id"]:
        logits = model(torch.tensor([ids], device=device))[0, -1].float().cpu()
        ids.append(torch.multinomial(F.softmax(logits / temperature, dim=-1), 1, generator=generator).item())
        count -= 1
    return tokenizer.decode(ids, skip_special_tokens=True)


def save(model, tokenizer, result, folder, device):
    folder.mkdir(parents=True, exist_ok=True)
    weights = {"model." + name: p.detach().float().cpu().numpy() for name, p in model.named_parameters()}
    np.savez(folder / "weights.npz", **weights)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "training": result}, indent=1))
    torch.backends.cuda.matmul.allow_tf32 = False
    reference = {}
    for i, text in enumerate(TEXTS):
        ids = [CONFIG["bos_token_id"], *tokenizer.encode(text).ids]
        reference[f"ids{i}"] = np.array(ids, dtype=np.int32)
        with torch.no_grad():
            reference[f"logits{i}"] = model(torch.tensor([ids], device=device))[0].float().cpu().numpy()
    np.savez(folder / "reference.npz", **reference)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--count", type=int, default=1200000, help="pieces of text")
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--batch", type=int, default=256, help="rows of 512 tokens")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", default="checkpoint")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    start = time.time()
    length = CONFIG["max_position_embeddings"] + 1
    rows = torch.from_numpy(dataset(args.tokenizer, args.seed, args.count, length, args.processes))
    held_out = torch.from_numpy(dataset(args.tokenizer, 10**6 + args.seed, max(1000, min(20000, args.count // 20)), length, args.processes))
    print(f"{len(rows)} rows to learn from, {len(held_out)} held out, {time.time() - start:.0f} s", flush=True)
    args.batch = min(args.batch, len(held_out))
    model = Llama(CONFIG).to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters on {device}", flush=True)
    rows = rows.to(device)
    result = optimise(model, rows, held_out, args, device)
    print(json.dumps(result), flush=True)
    tokenizer = tokenizers.Tokenizer.from_file(args.tokenizer)
    save(model, tokenizer, result, pathlib.Path(args.output), device)
    for prompt in TEXTS:
        print("---", sample(model, tokenizer, prompt, device), flush=True)


if __name__ == "__main__":
    main()
