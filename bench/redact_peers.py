#!/usr/bin/env python3
"""anemone redact beside its peers on the same texts: scores, texts and kilobytes per second of CPU time.

    bench/redact_peers.py ANEMONE DATA [--inputs INPUTS]

DATA: the folder of the two sets. Peers: the rules of models/privacy-small (with --inputs, the folder of its recipe's
inputs, which hold the lists of names); presidio-analyzer from PyPI. The English models of spaCy are not on PyPI, so
presidio runs without them unless one is installed: then its name is taken, and persons and places are found as well.
Model loads are left out. Time on the wall stands beside CPU time; on a busy machine only the latter says something.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models/privacy-small"))

from privacy_small.labels import ACCOUNT, ADDRESS, DATE, EMAIL, PERSON, PHONE, URL  # noqa: E402
from privacy_small.rules import Rules  # noqa: E402
from privacy_small.score import score  # noqa: E402
from privacy_small.sets import load  # noqa: E402

PRESIDIO = {
    "PERSON": PERSON, "CREDIT_CARD": ACCOUNT, "US_SSN": ACCOUNT, "IBAN_CODE": ACCOUNT, "US_DRIVER_LICENSE": ACCOUNT,
    "US_BANK_NUMBER": ACCOUNT, "US_PASSPORT": ACCOUNT, "US_ITIN": ACCOUNT, "CRYPTO": ACCOUNT, "PHONE_NUMBER": PHONE,
    "EMAIL_ADDRESS": EMAIL, "URL": URL, "DATE_TIME": DATE, "LOCATION": ADDRESS,
}


class Anemone:
    def __init__(self, program: str, threads: int):
        self.command = [program, "redact", "--jsonl", "--threads", str(threads)]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __call__(self, texts: list[str]) -> list:
        lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)
        out, at = [], 0
        # In blocks that fit into a pipe: this program reads and writes in turn.
        for line in lines.splitlines(keepends=True):
            self.process.stdin.write(line)
            at += 1
            if at % 64 == 0 or at == len(texts):
                self.process.stdin.flush()
                while len(out) < at:
                    out.append(json.loads(self.process.stdout.readline())["spans"])
        return [[(s["start"], s["end"], s["label"]) for s in spans] for spans in out]


class Presidio:
    def __init__(self):
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import SpacyNlpEngine

        models = [name for name in spacy.util.get_installed_models() if name.startswith("en_")]

        class Blank(SpacyNlpEngine):
            def __init__(self):
                super().__init__()
                self.nlp = {"en": spacy.load(models[0]) if models else spacy.blank("en")}

        self.name = f"presidio-analyzer, {models[0] if models else 'patterns alone'}"
        self.engine = AnalyzerEngine(nlp_engine=Blank(), supported_languages=["en"])

    def __call__(self, texts: list[str]) -> list:
        found = []
        for text in texts:
            spans = [r for r in self.engine.analyze(text, language="en") if r.entity_type in PRESIDIO]
            kept: list = []
            for r in sorted(spans, key=lambda r: (-r.score, r.start - r.end)):
                if not any(r.start < k[1] and k[0] < r.end for k in kept):
                    kept.append((r.start, r.end, PRESIDIO[r.entity_type]))
            found.append(sorted(kept))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("anemone")
    parser.add_argument("data", type=Path)
    parser.add_argument("--inputs", type=Path)
    options = parser.parse_args()
    systems = [("anemone redact", Anemone(options.anemone, 1))]
    if options.inputs:
        rules = Rules(options.inputs)
        systems.append(("rules alone", lambda texts: [rules(text) for text in texts]))
    try:
        presidio = Presidio()
        systems.append((presidio.name, presidio))
    except ImportError:
        print("presidio-analyzer is not installed: left out")
    print("| set | system | exact F1 | overlap F1 | left in | texts/CPU s | kB/CPU s | texts/s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in ("faker", "presidio"):
        examples = load(name, options.data, options.data)
        texts = [e.text for e in examples]
        size = sum(len(text.encode()) for text in texts)
        for system, run in systems:
            run(texts[:50])
            cpu = run.cpu_seconds if isinstance(run, Anemone) else time.process_time
            started, spent = time.perf_counter(), cpu()
            found = run(texts)
            seconds, spent = time.perf_counter() - started, cpu() - spent
            s = score(examples, found)
            print(f"| {name} | {system} | {s['all']['f1']:.3f} | {s['all']['overlap_f1']:.3f} | {s['left_in']:.1%} "
                  f"| {len(texts) / spent:.0f} | {size / spent / 1e3:.1f} | {len(texts) / seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
