#!/usr/bin/env python3
"""coremltools accepts every package that `anemone convert` writes: every kind of bundle, of a model of every family.

    bundles.py ANEMONE        the command

Takes the demo model and, from the test data (roots.py), one checkpoint of every architecture that convert knows. Prints a line per fault and a sum; exit status 1 when there is a fault.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types

import check_package
import roots


SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KINDS = [
    "--tokens 1",
    "--tokens 1,4 --kv-write slice",
    "--tokens 1-4 --precision fp16",
    "--tokens 1,4 --context 16,32 --precision fp16",
    "--kv packed --tokens 1-4",
    "--kv packed --kv-write slice --tokens 1,4",
    "--kv packed --context 16,32",
    "--kv io --tokens 1-4",
    "--kv io --kv-write slice --tokens 1,4 --context 16,32",
    "--precision int8-tensor --embedding int8",
    "--precision fp16 --shard-mb 0.000001 --head-rows 100 --residual-scale 0.25",
    "--argmax-output --head-rows 300 --tokens 1-4",
    "--whole --tokens 1-4 --head-rows 300",
    "--whole --tokens 1,4 --context 16,32 --argmax-output --kv packed --kv-write slice",
    "--whole --kv io --precision fp16",
    "--target a17-pro --residual-scale auto",
]
# Of a model that sees a text whole: there is no cache.
TEXT_KINDS = ["--tokens 16", "--tokens 16,32 --precision fp16 --residual-scale 0.25", "--shard-mb 0.000001"]
# What convert rightly refuses for some models, by the words of its error.
RANGE = "a range of tokens cannot be combined with recurrent layers"
WHOLE = "an encoder does not take"


def kinds(first, whole):
    """All of them for the first model; for the others, whose layers differ, every form once."""
    if whole:
        return TEXT_KINDS
    return KINDS if first else [k for i, k in enumerate(KINDS) if i in (1, 2, 4, 8, 11, 13)]


def models():
    """A checkpoint per architecture; the command says which ones it does not know."""
    yield os.path.join(SOURCE, "examples", "demo_model", "demo.gguf")
    seen = set()
    configs = [c for root in roots.data_roots() for c in sorted(glob.glob(os.path.join(root, "models", "*", "config.json")))]
    for config in configs:
        with open(config) as f:
            names = tuple(json.load(f).get("architectures") or ())
        folder = os.path.dirname(config)
        if names not in seen and glob.glob(os.path.join(folder, "*.safetensors")):
            seen.add(names)
            yield folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anemone")
    command = parser.parse_args().anemone
    packages, faults = 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        bundle = os.path.join(temporary, "bundle")
        for index, model in enumerate(models()):
            probe = subprocess.run([command, "convert", model, "-o", bundle, "--context", "32"], capture_output=True,
                                   text=True, check=False)
            shutil.rmtree(bundle, ignore_errors=True)
            if "the architecture is not known" in probe.stderr:
                print(f"skipped: {os.path.basename(model)} is of no known family")
                continue
            whole = WHOLE in probe.stderr
            for number, kind in enumerate(kinds(index == 0, whole)):
                context = [] if whole or "--context" in kind else ["--context", "32"]
                run = subprocess.run([command, "convert", model, "-o", bundle, *context, *kind.split()],
                                     capture_output=True, text=True, check=False)
                if RANGE in run.stderr:
                    print(f"skipped: {os.path.basename(model)} {kind}: {RANGE}")
                    continue
                if run.returncode:
                    faults += 1
                    print(f"{model} {kind}: {run.stderr.strip()}")
                    continue
                for path in sorted(glob.glob(os.path.join(bundle, "*.mlpackage"))):
                    packages += 1
                    try:
                        # Its own compression takes long: once a model.
                        check_package.check(path, types.SimpleNamespace(same_as=None, compress=index == 0 and number == 2))
                    except Exception as e:  # whatever coremltools raises is the answer
                        faults += 1
                        print(f"{model} {kind} {os.path.basename(path)}: {type(e).__name__}: {e}")
                shutil.rmtree(bundle)
    print(f"bundles: {packages - faults} packages passed, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
