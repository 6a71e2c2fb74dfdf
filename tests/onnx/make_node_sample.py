#!/usr/bin/env python3
"""Chooses a sample of ONNX's node tests for ./test: tests/data/onnx/node_sample.zip.

    make_node_sample.py CASES ONNX_NODE_TESTS

CASES is what make_node_cases.py wrote; ONNX_NODE_TESTS the program, which says what passes. Takes the two smallest cases
of every operator, then the smallest of the rest, up to 300. Model and data of a case are joined in one file.
"""

import os
import subprocess
import sys
import zipfile

import onnx

COUNT = 300


def size(path):
    return sum(os.path.getsize(os.path.join(path, name)) for name in ("model.onnx", "data.onnx"))


def main(folder, program):
    listing = subprocess.run([program, folder], capture_output=True, text=True).stdout
    other = {line.split()[1].rstrip(":") for line in listing.splitlines()[:-1] if not line.startswith("fixed")}
    cases = [n for n in sorted(os.listdir(folder)) if n not in other and not n.endswith("_expanded")]
    cases.sort(key=lambda n: (size(os.path.join(folder, n)), n))
    chosen, counts = [], {}
    for name in cases:
        model = onnx.load(os.path.join(folder, name, "model.onnx"))
        op = model.graph.node[0].op_type
        if counts.get(op, 0) < 2:
            counts[op] = counts.get(op, 0) + 1
            chosen.append(name)
    chosen += [n for n in cases if n not in set(chosen)][: COUNT - len(chosen)]
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "onnx", "node_sample.zip")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name in sorted(chosen[:COUNT]):
            for part in ("model.onnx", "data.onnx"):
                info = zipfile.ZipInfo(f"{name}/{part}", (2020, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                with open(os.path.join(folder, name, part), "rb") as f:
                    z.writestr(info, f.read())
    print(len(chosen[:COUNT]), "cases,", len(counts), "operators,", os.path.getsize(out), "bytes")


main(*sys.argv[1:])
