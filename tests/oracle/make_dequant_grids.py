#!/usr/bin/env python3
"""Writes src/kernels/dequant_grids.cpp: the code books of the IQ1, IQ2 and IQ3 block types, packed.

    pip install gguf==0.19.0
    python tests/oracle/make_dequant_grids.py > src/kernels/dequant_grids.cpp

The code books are constants of the file format; they are taken from the gguf package as values and packed our way.
"""
import numpy as np
from gguf import quants

HEAD = """// Written by tests/oracle/make_dequant_grids.py; do not edit. What the tables mean: dequant_plain.h.
// clang-format off
#include "kernels/dequant_plain.h"

namespace anemone {
"""


def packed(cls, bits):
    cls.init_grid()
    grid = cls.grid.reshape(cls.grid_shape)
    index = {float(v): i for i, v in enumerate(cls.grid_map)}
    return [sum(index[float(v)] << (bits * i) for i, v in enumerate(row)) for row in grid]


def main():
    print(HEAD)
    for name, cls, bits in (
        ("kGridIq2Xxs", quants.IQ2_XXS, 2),
        ("kGridIq2Xs", quants.IQ2_XS, 2),
        ("kGridIq2S", quants.IQ2_S, 2),
        ("kGridIq1", quants.IQ1_S, 2),
        ("kGridIq3Xxs", quants.IQ3_XXS, 3),
        ("kGridIq3S", quants.IQ3_S, 3),
    ):
        words = packed(cls, bits)
        print(f"const uint16_t {name}[{len(words)}] = {{")
        for i in range(0, len(words), 16):
            print("    " + ", ".join(f"{w:5d}" for w in words[i : i + 16]) + ",")
        print("};\n")
    print("}  // namespace anemone")


if __name__ == "__main__":
    main()
