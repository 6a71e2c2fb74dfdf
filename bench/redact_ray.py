#!/usr/bin/env python3
"""A corpus through one process and through Ray actors, turn by turn: texts a second.

    bench/redact_ray.py ANEMONE DATA [--texts 2000] [--actors 2] [--files 8]

DATA: the folder of the two sets, whose texts are repeated. Needs ray[data]. The start of Ray is not counted; that of the
actors is, and so is their load of the model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HOME / "python/anemone_ray")]
os.environ["PYTHONPATH"] = f"{HOME / 'python/anemone_ray'}:{os.environ.get('PYTHONPATH', '')}"

import ray  # noqa: E402
from anemone_ray import redact_corpus  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("anemone")
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--files", type=int, default=8)
    options = parser.parse_args()
    sets = [json.loads(path.read_text()) for path in sorted(options.data.glob("*.json"))]
    texts = [e["text"] for s in sets if isinstance(s, list) for e in s if "text" in e]
    texts = [texts[i % len(texts)] for i in range(options.texts)]
    program = os.path.abspath(options.anemone)
    ray.init(num_cpus=options.actors, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        for file in range(options.files):
            lines = (json.dumps({"text": text}) + "\n" for text in texts[file :: options.files])
            Path(folder, f"part{file}.jsonl").write_text("".join(lines))
        parts = sorted(str(path) for path in Path(folder).glob("*.jsonl"))
        for turn in range(2):
            started = time.perf_counter()
            command = [program, "redact", "--jsonl", *parts, "-o", f"{folder}/one{turn}", "--quiet"]
            subprocess.run([*command, "--threads", str(options.actors)], check=True)
            one = time.perf_counter() - started
            started = time.perf_counter()
            redact_corpus(parts, f"{folder}/ray{turn}", actors=options.actors, program=program)
            actors = time.perf_counter() - started
            same = all(
                Path(folder, f"one{turn}", Path(part).name).read_bytes()
                == Path(folder, f"ray{turn}", Path(part).name).read_bytes()
                for part in parts
            )
            print(f"{len(texts)} texts: one process of {options.actors} threads {len(texts) / one:.0f}/s, "
                  f"{options.actors} actors {len(texts) / actors:.0f}/s, {'the same bytes' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
