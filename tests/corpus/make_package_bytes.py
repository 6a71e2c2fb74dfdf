#!/usr/bin/env python3
"""Makes the table of package_bytes_corpus.cpp anew: the XXH3 of every file of its bundles but bundle.json.

    make_package_bytes.py ANEMONE      the command whose packages are the right ones

Names, sources and flags are those of the table as it is; a source lies in the repository or below a root of the test
data (tests/oracle/roots.py). A bundle whose source is absent keeps its entry.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
TABLE = os.path.join(HERE, "package_bytes.json")
sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
import roots  # noqa: E402


def find_source(name):
    for root in [SOURCE, *roots.data_roots()]:
        if os.path.exists(os.path.join(root, name)):
            return os.path.join(root, name)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anemone")
    command = parser.parse_args().anemone
    with open(TABLE) as f:
        table = json.load(f)
    with tempfile.TemporaryDirectory() as temporary:
        for index, entry in enumerate(table):
            source = find_source(entry["source"])
            if source is None:
                print(f"skipped: {entry['name']}: no {entry['source']}")
                continue
            bundle = os.path.join(temporary, str(index))
            flags = list(entry["flags"])
            # The test goes by the library's default, one token at once; the command adds a function for prompts.
            writes_text = any(name.startswith(("head_", "whole.")) for name in entry["files"])
            if "--tokens" not in flags and writes_text:
                flags += ["--tokens", "1"]
            subprocess.run([command, "convert", source, "-o", bundle, "--quiet", *flags], check=True)
            with open(os.path.join(bundle, "bundle.json")) as f:
                info = json.load(f)
            entry["tool"] = info["tool"]
            entry["files"] = {file["path"]: file["xxh3"] for file in info["files"]}
    with open(TABLE, "w") as f:
        json.dump([{key: e[key] for key in ("name", "source", "flags", "tool", "files")} for e in table], f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
