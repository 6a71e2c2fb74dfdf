#!/usr/bin/env python3
"""anemone and coremltools compress the same kind of matrix, in one run: time per weight and peak memory.

    compress_peers.py BENCH_COMPRESS ANEMONE [--rows 4864] [--columns 896]

BENCH_COMPRESS is bench/compress.cpp, ANEMONE the command. coremltools' own functions are timed in this process
(tables and indices, or integers and scales, in memory; nothing is saved); ours likewise. Memory is the peak of a
whole process that opens a package of that one matrix, compresses it and saves it. Beside the time that passed stands
the time that was worked (of all cores together): on a busy machine only that says much.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from coremltools.optimize.coreml._quantization_passes import linear_quantize_weights, palettize_weights

PEER = """
import sys, coremltools as ct, coremltools.optimize.coreml as cto
m = ct.models.MLModel(sys.argv[1], skip_model_load=True)
c = cto.OptimizationConfig(cto.OpPalettizerConfig(mode="kmeans", nbits=4))
cto.palettize_weights(m, c).save(sys.argv[2])
"""


def peak_mib(command):
    """Peak resident memory of a command, in MiB.

    A small process starts it: a child's peak counts what it was forked from.
    """
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, "
            "stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    out = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    return int(out.stdout) / 1024


def package(rows, columns, folder):
    weight = (np.random.default_rng(0).standard_normal((rows, columns, 1, 1)) * 0.02).astype(np.float16)

    @mb.program(input_specs=[mb.TensorSpec((1, columns, 1, 1), types.fp16)], opset_version=ct.target.iOS18)
    def program(x):
        return mb.conv(x=x, weight=weight, name="y")

    path = os.path.join(folder, "matrix.mlpackage")
    ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18, skip_model_load=True,
               compute_precision=ct.precision.FLOAT16).save(path)
    return weight, path


def timed(run):
    start, work = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - work


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("anemone")
    parser.add_argument("--rows", type=int, default=4864)
    parser.add_argument("--columns", type=int, default=896)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weight, path = package(options.rows, options.columns, folder)
        kmeans = lambda group: palettize_weights.blockwise_compress(weight, "KMEANS", 4, [group, 0, 0, 0])
        peers = {
            "palette4": timed(lambda: kmeans(0)),
            "palette4_group16": timed(lambda: kmeans(16)),
            "int8": timed(lambda: linear_quantize_weights.blockwise_compress(
                weight, 8, "LINEAR_SYMMETRIC", True, [1, 0, 0, 0])),
        }
        peers["palette4_group16_fast"] = peers["palette4_group16"]
        ours = {}
        out = subprocess.run([options.bench, str(options.rows), str(options.columns)], check=True, capture_output=True,
                             text=True)
        for line in out.stdout.splitlines():
            words = line.split()
            ours[words[0]] = float(words[1]), float(words[3])
        print(f"{options.rows} x {options.columns}, fp16; load average {os.getloadavg()[0]:.1f} on "
              f"{os.cpu_count()} cores")
        print(f"{'ns per weight':<24}{'coremltools':>14}{'anemone':>12}{'ratio':>8}"
              f"{'worked':>14}{'worked':>12}{'ratio':>8}")
        for name, seconds in peers.items():
            row = ""
            for theirs, mine in zip(seconds, ours[name]):
                theirs = theirs / weight.size * 1e9
                row += f"{theirs:>14.1f}{mine:>12.2f}{theirs / mine:>7.0f}x"
            print(f"{name:<24}{row}")
        saved = os.path.join(folder, "out.mlpackage")
        theirs = peak_mib([sys.executable, "-c", PEER, path, saved])
        packed = os.path.join(folder, "ours.mlpackage")
        mine = peak_mib([options.anemone, "compress", path, "-o", packed, "--palettize", "4"])
        print(f"{'peak memory':<24}{theirs:>10.0f} MiB{mine:>8.0f} MiB{theirs / mine:>7.0f}x")


if __name__ == "__main__":
    main()
