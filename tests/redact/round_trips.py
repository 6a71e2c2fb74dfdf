#!/usr/bin/env python3
"""Round trips through the command, on demand: what is not redacted stays to the byte, and memory stays flat.

    tests/redact/round_trips.py ANEMONE [--files 1000] [--mib 1024] [--model-files 200]

1. Odd files (encodings, byte order marks, no bytes, broken UTF-8, CRLF, nested JSON, tables, long words) go through
   `redact -r` with a pattern that nothing matches, and those that it leaves out by themselves: the same bytes must
   come out.
2. Some of them, with personal data put in, go through with the model: the source, with each span of the report replaced
   at its bytes, must be what came out.
3. One line of --mib MiB in a pipe: the same bytes, and at most 64 MiB of memory.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PIECES = ["Tide pools\n", "a,b;c\t|d\r\n", '"quoted ""cell""",', '{"k": ["v", {"d": "\\u00fc\\n"}]}\n', "naïve café ", "\r",
          "😀 ", "\\ud83d\\ude00", '"', "\\", "[[[[", "}]", "\n\n  \n", "我在海边。", "x", "ﬁ ", "\u2028", "שלום ", "\x0b\x0c\x1b"]
PERSONAL = ["Ask Hazel Quist about it. ", "Mail hazel.quist@corp.example today. ", "Call +1 (570) 555-0142. "]
CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "shift-jis", "koi8-r",
          "utf-32", "utf-32-be", "gb18030"]
ENDS = [".txt", ".md", ".csv", ".tsv", ".json", ".jsonl", ".log", ""]
FLAT = 64 << 20


def odd_file(rng, more=()):
    pieces = PIECES + list(more) * 4
    text = "".join(rng.choice(pieces) for _ in range(rng.randrange(60)))
    if rng.random() < 0.1:
        text += "y" * rng.randrange(2000 if more else 200000)  # the model takes its time
    if rng.random() < 0.1:
        text = json.dumps({"a": [{"b": text}] * 3, "deep": json.loads("[" * 40 + "1" + "]" * 40)}, indent=rng.choice([None, 2]))
    data = bytearray(text.encode(rng.choice(CODECS), errors="replace"))
    if data and rng.random() < 0.3:
        for _ in range(5):
            data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.25:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def fill(folder, count, rng, more=()):
    files = {}
    for n in range(count):
        path = folder / f"d{n % 7}" / f"f{n}{rng.choice(ENDS)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        files[path] = b"" if n == 0 else odd_file(rng, more)
        path.write_bytes(files[path])
    return files


def redact(anemone, folder, out, *flags):
    report = out.with_suffix(".report.json")
    subprocess.run([anemone, "redact", "-r", folder, "-o", out, "--report", report, "--quiet", *flags], check=True)
    return json.loads(report.read_text())


def replaced(source, entry):
    """The source with every span of the report in its place."""
    codec = {"utf-8": "utf-8", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "utf-32le": "utf-32-le",
             "utf-32be": "utf-32-be", "latin-1": "latin-1"}[entry["encoding"]]
    out, at = b"", 0
    for span in entry["spans"]:
        out += source[at : span["start_byte"]] + span["replacement"].encode(codec)
        at = span["end_byte"]
    return out + source[at:]


def round_trips(anemone, home, count, rng, flags, more=()):
    folder, out = home / "in", home / "out"
    files = fill(folder, count, rng, more)
    report = redact(anemone, folder, out, *flags)
    same = skipped = spans = 0
    for entry in report["files"]:
        source = files[Path(entry["file"])]
        if "skipped" in entry:  # in folders; named by themselves they are read
            skipped += 1
            if not more:
                assert subprocess.run([anemone, "redact", entry["file"], *flags, "--quiet"], check=True,
                                      stdout=subprocess.PIPE).stdout == source, entry["file"]
            continue
        written = (out / Path(entry["file"]).relative_to(folder)).read_bytes()
        assert written == replaced(source, entry), entry["file"]
        same += written == source
        spans += len(entry["spans"])
    assert len(report["files"]) == len(files)
    print(f"{count} odd files, {' '.join(flags) or 'the model'}: {same} the same, {spans} spans in the others, each where the "
          f"report says; {skipped} are no text and were left out{'' if more else '; named, the same'}", flush=True)
    return same, skipped, spans


def long_line(anemone, mib):
    command = [anemone, "redact", "--model", "none", "--also", "this stands nowhere in it", "--quiet"]
    block = bytes(33 + i * 7 % 90 for i in range(1 << 20))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    given, taken, size = hashlib.sha256(), hashlib.sha256(), 0

    def feed():
        for _ in range(mib):
            given.update(block)
            process.stdin.write(block)
        process.stdin.close()

    def resident():
        """The most that it had so far. At its end the system counts this program too, of which it was a copy."""
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)

    feeder = threading.Thread(target=feed)
    feeder.start()
    memory = 0
    while piece := process.stdout.read(1 << 20):
        taken.update(piece)
        size += len(piece)
        memory = max(memory, resident())
    feeder.join()
    _, status, usage = os.wait4(process.pid, 0)
    print(f"a line of {mib} MiB: {'the same bytes' if given.digest() == taken.digest() else 'OTHER BYTES'} ({size}), "
          f"{usage.ru_utime + usage.ru_stime:.1f} s of CPU time, {memory / 1e6:.1f} MB of memory", flush=True)
    assert status == 0 and given.digest() == taken.digest() and memory < FLAT


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("anemone")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--model-files", type=int, default=200)
    options = parser.parse_args()
    anemone, rng = os.path.abspath(options.anemone), random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        nothing = ["--model", "none", "--also", "this stands nowhere in them"]
        same, skipped, spans = round_trips(anemone, Path(folder, "plain"), options.files, rng, nothing)
        assert same + skipped == options.files and spans == 0
        _, _, spans = round_trips(anemone, Path(folder, "model"), options.model_files, rng, [], PERSONAL)
        assert spans > options.model_files
    long_line(anemone, options.mib)


if __name__ == "__main__":
    sys.exit(main())
