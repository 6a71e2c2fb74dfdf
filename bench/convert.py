#!/usr/bin/env python3
"""What a conversion costs, against the torch and coremltools route: same shape, one run of each, side by side.

    convert.py [--shape qwen2.5-0.5b] [--from gguf|onnx] [--anemone build/release/anemone] [--work FOLDER] [--no-peer]
               [--keep]

Makes a Q8_0 GGUF of that shape with random weights (make_gguf.py), or an int4 ONNX bundle (make_onnx.py, without a
peer). Converts it to an int8 bundle in one package with one function of one token and without the test of the residual
stream, as the peer's is, and lets peer_coremltools.py make the same decoder with its tools. Wall seconds and the highest
resident memory (mapped pages included) of the whole process, and the ratios. Needs numpy, and onnx for a bundle; the
peer torch and coremltools as well, and about 10 GB of memory for the 0.5 B shape.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from shapes import SHAPES

HERE = os.path.dirname(os.path.abspath(__file__))


def measure(command, **options):
    """(seconds, peak MiB) of a process."""
    start = time.monotonic()
    child = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{command[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - start, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def tree_bytes(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="qwen2.5-0.5b")
    parser.add_argument("--from", dest="form", choices=("gguf", "onnx"), default="gguf")
    parser.add_argument("--anemone", default=os.path.join(HERE, "..", "build", "release", "anemone"))
    parser.add_argument("--work", help="folder for the files; a temporary one otherwise")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the model in the folder")
    parser.add_argument("--runs", type=int, default=3, help="of anemone; the best counts")
    o = parser.parse_args()
    work = o.work or tempfile.mkdtemp(prefix="anemone_bench_")
    os.makedirs(work, exist_ok=True)
    source = os.path.join(work, f"{o.shape}.Q8_0.gguf" if o.form == "gguf" else f"{o.shape}.int4")
    bundle, package = os.path.join(work, "bundle"), os.path.join(work, "peer.mlpackage")
    try:
        if not os.path.exists(source):
            make = ["make_gguf.py", o.shape, "Q8_0", source] if o.form == "gguf" else ["make_onnx.py", o.shape, source]
            subprocess.run([sys.executable, os.path.join(HERE, make[0]), *make[1:]], check=True)
        weights = SHAPES[o.shape].weights
        size = os.path.getsize(source) if o.form == "gguf" else tree_bytes(source)
        print(f"{o.shape}: {weights / 1e6:.0f} M weights, {size / 1e6:.0f} MB of "
              f"{'Q8_0' if o.form == 'gguf' else 'int4 in ONNX'}; load {os.getloadavg()[0]:.1f}", flush=True)
        runs = []
        for _ in range(o.runs):
            shutil.rmtree(bundle, ignore_errors=True)
            runs.append(measure([o.anemone, "convert", source, "-o", bundle, "--whole", "--kv", "packed", "--kv-write",
                                 "slice", "--context", "512", "--tokens", "1", "--residual-scale", "1", "--quiet"]))
        seconds, memory = min(runs)[0], max(m for _, m in runs)
        print(f"anemone      {seconds:8.2f} s  {memory:8.0f} MiB  {tree_bytes(bundle) / 1e6:6.0f} MB "
              f"(all {o.runs} runs: {', '.join(f'{s:.2f}' for s, _ in runs)} s)", flush=True)
        if o.no_peer or o.form == "onnx":
            return
        log = os.path.join(work, "peer.log")
        with open(log, "w") as out:
            peer_seconds, _ = measure([sys.executable, os.path.join(HERE, "peer_coremltools.py"), o.shape, package],
                                      stdout=out, stderr=subprocess.DEVNULL)
        with open(log) as lines:  # it starts the system's count anew at each step, so the steps know the peak
            steps = [json.loads(line) for line in lines if line.startswith("{")]
        os.remove(log)
        peer_memory = max(step["peak_mib"] for step in steps)
        print(f"coremltools  {peer_seconds:8.2f} s  {peer_memory:8.0f} MiB  {tree_bytes(package) / 1e6:6.0f} MB ("
              + ", ".join(f"{step['step']} {step['seconds']:.0f} s" for step in steps) + ")")
        print(f"ratio        {peer_seconds / seconds:8.0f} x  {peer_memory / memory:8.0f} x")
    finally:
        for path in (bundle, package):
            shutil.rmtree(path, ignore_errors=True)
        if not o.keep:
            shutil.rmtree(source) if os.path.isdir(source) else os.path.exists(source) and os.remove(source)
        if not o.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
