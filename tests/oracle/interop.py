#!/usr/bin/env python3
"""Every package that we write back is accepted by coremltools and says what the original says.

    interop.py REWRITE_PACKAGE      our test program, which reads a package and writes it back

Walks examples/ and the test data (roots.py) for .mlpackage. Also lets coremltools compress and decompress every
fourth of the written packages, and every example. Prints a line per fault and a sum; exit status 1 when there is a
fault.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import types

import check_package
import roots


SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLES = os.path.join(SOURCE, "examples")


def packages():
    for folder in [EXAMPLES, *roots.data_roots()]:
        for root, names, _ in sorted(os.walk(folder)):
            for name in sorted(names):
                if name.endswith(".mlpackage"):
                    yield os.path.join(root, name), folder == EXAMPLES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rewrite")
    options = parser.parse_args()
    done, faults = 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        for path, always in packages():
            out = os.path.join(temporary, "out.mlpackage")
            try:
                run = subprocess.run([options.rewrite, path, out], capture_output=True, text=True, check=False)
                if run.returncode:
                    raise ValueError(run.stderr.strip() or f"rewrite_package ended with {run.returncode}")
                compress = always or done % 4 == 0
                check_package.check(out, types.SimpleNamespace(same_as=path, compress=compress))
            except Exception as e:  # whatever coremltools raises is the answer
                faults += 1
                print(f"{path}: {type(e).__name__}: {e}")
            done += 1
    for folder in roots.data_roots():
        if not os.path.isdir(folder):
            print(f"skipped: no test data at {folder}")
    print(f"interop: {done - faults} passed, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
