"""Trains a model on the shards of shards.py while they are still being written.

    python -m privacy_small.train SHARDS OUTPUT_FOLDER --seed 2 --steps 7500 --shards 2200

Step s draws its rows from the first shards only, and their number grows with s; the trainer waits for a shard that is
not there yet. So the data of a step depends on the seed alone, not on how fast the generators are.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from .network import PrivacyFilter, Size, make_config
from .shards import ROW, ROWS, shard_path

WARM_UP_STEPS = 200
LONGEST_WAIT = 300  # seconds, for a shard
AVERAGE_EVERY = 4  # steps between updates of the averaged weights
FIRST_SHARDS = 0.04  # share of the shards that the first step draws from
ALL_SHARDS_AT = 0.75  # share of the steps after which all shards are used


class Rows:
    """The shards read so far, on the device."""

    def __init__(self, folder: Path, shards: int, device: str):
        self.folder, self.device, self.read = folder, device, 0
        kinds = {"ids": torch.int16, "labels": torch.uint8, "documents": torch.uint8}
        self.arrays = {k: torch.zeros(shards * ROWS, ROW, dtype=t, device=device) for k, t in kinds.items()}
        self.waited = 0.0

    def need(self, shards: int) -> None:
        while self.read < shards:
            path = shard_path(self.folder, self.read)
            started = time.time()
            while not path.exists():
                if time.time() - started > LONGEST_WAIT:
                    raise TimeoutError(f"{path} did not appear in {LONGEST_WAIT} s; is privacy_small.shards running?")
                time.sleep(0.1)
            self.waited += time.time() - started
            shard = np.load(path)
            place = slice(self.read * ROWS, (self.read + 1) * ROWS)
            for kind, array in self.arrays.items():
                array[place] = torch.from_numpy(shard[kind]).to(self.device)
            self.read += 1

    def draw(self, batch: int, generator: torch.Generator) -> list[torch.Tensor]:
        rows = torch.randint(0, self.read * ROWS, (batch,), generator=generator).to(self.device)
        return [array[rows].long() for array in self.arrays.values()]


class Average:
    """An exponential average of the weights: steadier than the last ones."""

    def __init__(self, model: torch.nn.Module):
        self.values = {name: value.detach().clone().float() for name, value in model.state_dict().items()}
        self.updates = 0

    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        decay = min(0.999, (1 + self.updates) / (10 + self.updates))
        state = model.state_dict()
        torch._foreach_lerp_(list(self.values.values()), [state[name].float() for name in self.values], 1 - decay)
        self.updates += 1


def learning_rate(highest: float, step: int, steps: int) -> float:
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return highest * min(1, (step + 1) / WARM_UP_STEPS) * (0.02 + 0.98 * cosine)


def shards_at(step: int, steps: int, shards: int) -> int:
    share = FIRST_SHARDS + (1 - FIRST_SHARDS) * step / (ALL_SHARDS_AT * steps)
    return min(shards, max(1, math.ceil(shards * share)))


def make_optimizer(model: torch.nn.Module, options) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    fused = options.device == "cuda"
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.98), eps=1e-8, fused=fused)


def train(options) -> tuple[PrivacyFilter, Average, dict]:
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    model = PrivacyFilter(Size(**json.loads(options.size))).to(options.device)
    compiled = torch.compile(model) if options.compile else model
    optimizer, average = make_optimizer(model, options), Average(model)
    rows = Rows(options.shard_folder, options.shards, options.device)
    draws = torch.Generator().manual_seed(options.seed)
    steps, started, reported = options.steps, time.time(), 0.0
    for step in range(steps):
        rows.need(shards_at(step, steps, options.shards))
        ids, labels, documents = rows.draw(options.batch, draws)
        noise = torch.rand(ids.shape, device=ids.device) < options.noise
        ids = torch.where(noise, torch.randint_like(ids, 1, model.size.vocab_size), ids)
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.device == "cuda"):
            logits, balance = compiled(ids, documents)
        # padding has no label: -100 is left out of the mean
        targets = torch.where(documents > 0, labels, -100)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        (loss + options.balance * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options.learning_rate, step, steps)
        optimizer.step()
        if step % AVERAGE_EVERY == 0:
            average.update(model)
        if step % 25 == 0 and (time.time() - reported > 10 or step + 1 == steps):
            reported = time.time()
            speed = (step + 1) * options.batch * ROW / (reported - started)
            text = f"step {step}/{steps} loss {loss.item():.4f} {speed:.0f} tokens/s, {rows.read} shards"
            print(f"{options.output.name}: {text}, waited {rows.waited:.0f} s", flush=True)
    record = {"seconds": round(time.time() - started), "last_loss": round(loss.item(), 5)}
    return model, average, record


def save(model: PrivacyFilter, average: Average, folder: Path) -> None:
    """fp16, except the sinks, which the published checkpoints keep in fp32."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (value if "sinks" in name else value.half()).contiguous().cpu() for name, value in average.values.items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(make_config(model.size), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shard_folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--steps", type=int, default=7500)
    parser.add_argument("--shards", type=int, default=2200)
    parser.add_argument("--batch", type=int, default=256, help="rows of 256 tokens in a step")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--balance", type=float, default=0.01, help="weight of the loss that keeps experts in use")
    parser.add_argument("--noise", type=float, default=0.02, help="share of tokens that become random ones")
    parser.add_argument("--size", default="{}", help='JSON, changes to the default: {"hidden_size": 160}')
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    model, average, record = train(options)
    save(model, average, options.output)
    kept = ("seed", "steps", "shards", "batch", "learning_rate", "weight_decay", "balance", "noise", "compile")
    record.update({key: getattr(options, key) for key in kept}, torch=torch.__version__)
    record["parameters"] = sum(p.numel() for p in model.parameters())
    (options.output / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{options.output.name}: {record}", flush=True)


if __name__ == "__main__":
    main()
