#!/usr/bin/env python3
"""What a process costs that answers one prompt: time from its start to its end, the first prompt beside a warm one, and
memory beside the weights and the part of the cache that is in use.

    start.py BUNDLE [--anemone build/release/anemone] [--other PROGRAM] [--rounds 15]

--other: another build of the command, in turns with the first. Medians. Where other programs run, give this one a
higher priority: chrt -f 1 bench/start.py …
"""
import argparse
import collections
import glob
import json
import os
import statistics
import subprocess
import time

SHORT = "Hello"
LONG = ("The old lighthouse keeper walked down to the shore every morning to see whether the tide had brought anything "
        "new, and on most days he found only driftwood, shells and the tangled remains of fishing nets that had been "
        "lost")


def wall(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return 1e3 * (time.perf_counter() - start)


def figures(command):
    return json.loads(subprocess.run(command + ["--json"], capture_output=True, check=True).stdout)


def weights(bundle):
    """Bytes that every token reads; of the embedding it reads a row."""
    return sum(os.path.getsize(f) for f in glob.glob(f"{bundle}/*.mlpackage/**/weight.bin", recursive=True))


def measure(program, bundle, results):
    run = [program, "run", bundle]
    one = ["--raw", "--max-new", "1"]
    results["process, no work, ms"].append(wall([program, "--version"]))
    results["process, 1 token in and out, ms"].append(wall(run + [SHORT] + one))
    cold, warm = figures(run + [LONG] + one), figures(run + [LONG] + one + ["--warmup", "1"])
    results[f"first prompt, {cold['prompt_tokens']} tokens, tok/s"].append(cold["prefill_tokens_per_s"])
    results["warm prompt, tok/s"].append(warm["prefill_tokens_per_s"])
    results["first / warm"].append(cold["prefill_tokens_per_s"] / warm["prefill_tokens_per_s"])
    results["most memory, MiB"].append(cold["peak_bytes"] / 2**20)
    results["of it beside the weights, MiB"].append((cold["peak_bytes"] - weights(bundle)) / 2**20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--anemone", default="build/release/anemone")
    parser.add_argument("--other")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    programs = [p for p in (options.anemone, options.other) if p]
    results = {p: collections.defaultdict(list) for p in programs}
    for _ in range(options.rounds):
        for p in programs:
            measure(p, options.bundle, results[p])
    for name in results[programs[0]]:
        print(f"{name:36}" + "".join(f" {statistics.median(results[p][name]):9.2f}" for p in programs))


if __name__ == "__main__":
    main()
