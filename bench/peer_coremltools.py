#!/usr/bin/env python3
"""The route that people take with torch and coremltools, for bench/convert.py: build, trace, convert, quantise, save.

    peer_coremltools.py SHAPE OUT.mlpackage [--layers N] [--context N]

The decoder is built from torch modules with random weights (no file is read, which is in its favour): activations
[1, C, T, 1], every projection a 1x1 Conv2d, grouped attention over two states that are written in place, embedding and
tied head inside, T = 1, fp16, macOS 15; then linear_quantize_weights to int8 with a scale per channel. Needs torch and
coremltools. Prints a JSON line per step: seconds and the highest memory in that step.
"""
import argparse
import json
import time

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from shapes import SHAPES


class Step:
    """Times a step; VmHWM, the peak of the resident set, starts anew with each."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass
        self.start = time.monotonic()

    def __exit__(self, *failure):
        if failure[0]:
            return
        with open("/proc/self/status") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024
        print(json.dumps({"step": self.name, "seconds": round(time.monotonic() - self.start, 2),
                          "peak_mib": round(peak)}), flush=True)


def projection(columns, rows, bias=False):
    return nn.Conv2d(columns, rows, 1, bias=bias)


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(1, width, 1, 1)), eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + self.eps) * self.weight


class Layer(nn.Module):
    def __init__(self, s, index, context):
        super().__init__()
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        self.s, self.index, self.context = s, index, context
        self.norm1, self.norm2 = Norm(s.hidden, s.eps), Norm(s.hidden, s.eps)
        self.q = projection(s.hidden, q, s.qkv_bias)
        self.k, self.v = projection(s.hidden, kv, s.qkv_bias), projection(s.hidden, kv, s.qkv_bias)
        self.o = projection(q, s.hidden)
        self.gate, self.up = projection(s.hidden, s.ffn), projection(s.hidden, s.ffn)
        self.down = projection(s.ffn, s.hidden)

    def heads(self, x, count):  # [1, count * d, T, 1] -> [1, count, T, d]
        return x.view(1, count, self.s.head_dim, -1).transpose(2, 3)

    @staticmethod
    def rotate(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, x, cos, sin, mask, position, keys, values):
        s, i = self.s, self.index
        h = self.norm1(x)
        q = self.rotate(self.heads(self.q(h), s.heads), cos, sin)
        k = self.rotate(self.heads(self.k(h), s.kv_heads), cos, sin)
        end = position + x.shape[2]
        keys[i:i + 1, :, position:end, :] = k
        values[i:i + 1, :, position:end, :] = self.heads(self.v(h), s.kv_heads)
        repeat = s.heads // s.kv_heads

        def spread(cache):
            return cache[i:i + 1].unsqueeze(2).repeat(1, 1, repeat, 1, 1).view(1, s.heads, self.context, s.head_dim)

        scores = torch.matmul(q, spread(keys).transpose(2, 3)) * (s.head_dim**-0.5) + mask
        mixed = torch.matmul(torch.softmax(scores, dim=-1), spread(values))
        x = x + self.o(mixed.transpose(2, 3).reshape(1, s.heads * s.head_dim, -1, 1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, s, layers, context):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(Layer(s, i, context) for i in range(layers))
        self.norm, self.head = Norm(s.hidden, s.eps), projection(s.hidden, s.vocab)
        self.head.weight = nn.Parameter(self.embed.weight.detach()[:, :, None, None])  # tied
        for name in ("k_cache", "v_cache"):
            self.register_buffer(name, torch.zeros(layers, s.kv_heads, context, s.head_dim))
        frequencies = 1.0 / s.rope_base**(torch.arange(0, s.head_dim, 2).float() / s.head_dim)
        angles = torch.outer(torch.arange(context).float(), frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids, mask, position):
        x = self.embed(ids).transpose(1, 2).unsqueeze(-1)
        cos, sin = self.cos[position][None, None], self.sin[position][None, None]
        for layer in self.layers:
            x = layer(x, cos, sin, mask, position[0], self.k_cache, self.v_cache)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--context", type=int, default=512)
    o = parser.parse_args()
    s = SHAPES[o.shape]
    torch.manual_seed(0)
    with Step("build"), torch.no_grad():
        model = Decoder(s, o.layers or s.layers, o.context).eval()
        for name, p in model.named_parameters():
            if p.dim() > 1 and "norm" not in name:
                p.normal_(0.0, 0.02)
    example = (torch.zeros(1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, o.context), torch.zeros(1, dtype=torch.int32))
    with Step("trace"), torch.no_grad():
        traced = torch.jit.trace(model, example, check_trace=False)
    inputs = [ct.TensorType("ids", (1, 1), dtype=np.int32),
              ct.TensorType("mask", (1, 1, 1, o.context), dtype=np.float16),
              ct.TensorType("position", (1,), dtype=np.int32)]
    states = [ct.StateType(ct.TensorType(shape=model.k_cache.shape, dtype=np.float16), name=n)
              for n in ("k_cache", "v_cache")]
    with Step("convert"):
        outputs = [ct.TensorType("logits", dtype=np.float16)]
        converted = ct.convert(traced, inputs=inputs, outputs=outputs, states=states,
                               minimum_deployment_target=ct.target.macOS15, compute_precision=ct.precision.FLOAT16,
                               compute_units=ct.ComputeUnit.CPU_AND_NE, skip_model_load=True)
    config = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig(
        mode="linear_symmetric", dtype="int8", granularity="per_channel"))
    with Step("quantise"):
        small = cto.linear_quantize_weights(converted, config)
    with Step("save"):
        small.save(o.out)


if __name__ == "__main__":
    main()
