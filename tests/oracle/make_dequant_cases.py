#!/usr/bin/env python3
"""Writes tests/data/dequant_cases.bin: random blocks of every type and the floats that the gguf package makes of them.

    pip install gguf==0.19.0 ml_dtypes
    python tests/oracle/make_dequant_cases.py tests/data/dequant_cases.bin
    python tests/oracle/make_dequant_cases.py many.bin 500 && ANEMONE_DEQUANT_CASES=many.bin build/dev/unit_tests

A case is: u32 type id (as in src/kernels/dequant_types.h), u32 bytes, u32 elements, the bytes, the floats;
little-endian. Types that the package does not decode (Q8_K, Q1_0, F64, the 8-bit floats) are decoded here from their
definition.
"""
import struct
import sys

import ml_dtypes
import numpy as np
import gguf
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

F8_E4M3, F8_E5M2 = 261, 262


def q8_k(block):
    return block[:, :4].copy().view(np.float32) * block[:, 4:260].copy().view(np.int8).astype(np.float32)


def q1_0(block):
    d = block[:, :2].copy().view(np.float16).astype(np.float32)
    bits = np.unpackbits(block[:, 2:], axis=1, bitorder="little")
    return np.where(bits == 1, d, -d).astype(np.float32)


OWN = {
    T.Q8_K: q8_k,
    T.Q1_0: q1_0,
    T.F64: lambda b: b.copy().view(np.float64).astype(np.float32),
}


def decode(qtype, blocks):
    with np.errstate(all="ignore"):
        if qtype in OWN:
            return OWN[qtype](blocks)
        return gguf.dequantize(blocks, qtype).reshape(len(blocks), -1)


def random_blocks(rng, qtype, count):
    """Random bytes, but no block with an infinity or a NaN."""
    _, size = GGML_QUANT_SIZES[qtype]
    kept = []
    while len(kept) < count:
        block = rng.integers(0, 256, (1, size), dtype=np.uint8)
        if np.isfinite(decode(qtype, block)).all():
            kept.append(block)
    return np.concatenate(kept)


def main(path, times=1):
    rng = np.random.default_rng(20261115)
    integers = {T.I8, T.I16, T.I32, T.I64, T.Q8_1}
    with open(path, "wb") as f:

        def write(type_id, raw, floats):
            f.write(struct.pack("<III", type_id, len(raw), floats.size) + raw + floats.astype("<f4").tobytes())

        for qtype in T:
            if qtype in integers:
                continue
            elements, _ = GGML_QUANT_SIZES[qtype]
            blocks = random_blocks(rng, qtype, max(5, 320 // elements) * times)
            write(int(qtype), blocks.tobytes(), decode(qtype, blocks))
        every = np.arange(256, dtype=np.uint8)
        for type_id, dtype in ((F8_E4M3, ml_dtypes.float8_e4m3fn), (F8_E5M2, ml_dtypes.float8_e5m2)):
            write(type_id, every.tobytes(), every.view(dtype).astype(np.float32))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
