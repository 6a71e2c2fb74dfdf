#!/usr/bin/env python3
"""Writes a GGUF file of a given shape with random weights, a tensor at a time, for measurements.

    make_gguf.py SHAPE TYPE OUT.gguf        SHAPE as in shapes.py; TYPE: F16, Q8_0, Q4_0

Needs numpy alone. There is no tokenizer in it, and it says so. Weights have a standard deviation near 0.02, so that activations stay
finite.
"""
import argparse
import struct

import numpy as np

from shapes import SHAPES

STD = 0.02
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34)}  # code, elements, bytes
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<II", 4, value)


def metadata(s):
    a = s.arch
    values = {"general.architecture": a, "general.name": s.name + " with random weights", "general.license": "cc0-1.0",
              f"{a}.context_length": s.context, f"{a}.embedding_length": s.hidden, f"{a}.block_count": s.layers,
              f"{a}.feed_forward_length": s.ffn, f"{a}.attention.head_count": s.heads,
              f"{a}.attention.head_count_kv": s.kv_heads, f"{a}.attention.layer_norm_rms_epsilon": s.eps,
              f"{a}.rope.dimension_count": s.rotary or s.head_dim, f"{a}.rope.freq_base": s.rope_base,
              f"{a}.vocab_size": s.vocab, "tokenizer.ggml.model": "none"}
    if s.original_context:
        values[f"{a}.rope.scaling.original_context_length"] = s.original_context
        values[f"{a}.rope.scaling.attn_factor"] = 1.190238
    return values


def tensors(s, kind):
    """(name, rows or 0 for a vector, columns, type)"""
    yield "token_embd.weight", s.vocab, s.hidden, kind
    yield "output_norm.weight", 0, s.hidden, "F32"
    if s.original_context:
        for which in ("long", "short"):
            yield f"rope_factors_{which}.weight", 0, (s.rotary or s.head_dim) // 2, "F32"
    for i in range(s.layers):
        for norm in ("attn_norm", "ffn_norm"):
            yield f"blk.{i}.{norm}.weight", 0, s.hidden, "F32"
        for name, rows, columns in s.layer_matrices():
            yield f"blk.{i}.{name}.weight", rows, columns, kind
            if s.qkv_bias and name in ("attn_q", "attn_k", "attn_v"):
                yield f"blk.{i}.{name}.bias", 0, rows, "F32"


def size(rows, columns, kind):
    _, per_block, block = TYPES[kind]
    return max(1, rows) * columns // per_block * block


def blocks(rng, count, kind):
    """Blocks of a quantised type: a half scale, then uniform bytes."""
    _, _, block = TYPES[kind]
    deviation = {"Q8_0": 73.6, "Q4_0": 4.6}[kind]
    out = np.empty((count, block), np.uint8)
    scale = (STD / deviation * (0.75 + 0.5 * rng.random(count, dtype=np.float32))).astype(np.float16)
    out[:, :2] = scale.view(np.uint8).reshape(-1, 2)
    raw = np.frombuffer(rng.bytes(count * (block - 2)), np.uint8).reshape(count, block - 2)
    out[:, 2:] = np.where(raw == 0x80, 0x81, raw) if kind == "Q8_0" else raw  # Q8_0 files hold no -128
    return out


def write_tensor(out, rng, name, rows, columns, kind):
    if rows == 0:
        out.write((np.zeros(columns, np.float32) if name.endswith("bias") else np.ones(columns, np.float32)).tobytes())
        return
    step = max(1, (1 << 24) // columns)
    for at in range(0, rows, step):
        n = min(step, rows - at) * columns
        if kind == "F16":
            out.write((rng.standard_normal(n, dtype=np.float32) * np.float32(STD)).astype(np.float16).tobytes())
        else:
            out.write(blocks(rng, n // 32, kind).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=[t for t in TYPES if t != "F32"])
    parser.add_argument("out")
    options = parser.parse_args()
    s, rng = SHAPES[options.shape], np.random.default_rng(1)
    listed, values = list(tensors(s, options.type)), metadata(s)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(values))
    header += b"".join(entry(k, v) for k, v in values.items())
    offset = 0
    for name, rows, columns, kind in listed:
        shape = [columns, rows] if rows else [columns]
        header += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", TYPES[kind][0], offset)
        offset += -(-size(rows, columns, kind) // ALIGNMENT) * ALIGNMENT
    with open(options.out, "wb") as out:
        out.write(header)
        for name, rows, columns, kind in listed:
            out.write(b"\0" * (-out.tell() % ALIGNMENT))
            write_tensor(out, rng, name, rows, columns, kind)
        out.write(b"\0" * (-out.tell() % ALIGNMENT))


if __name__ == "__main__":
    main()
