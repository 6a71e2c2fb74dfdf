#!/usr/bin/env python3
"""The scores of the shipped model through `anemone redact --jsonl`: redact_scores.py ANEMONE [BUNDLE]

The sets are looked for in pii/ below the roots of ANEMONE_DATA; status 77 where they are absent. Limits and scorer are
those of models/privacy-small. With a bundle of the same checkpoint, such as one in int8, its scores are judged instead.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "models/privacy-small"))

from privacy_small.check import ABOVE_RULES, LIMITS, SAME_SCORE, Report  # noqa: E402
from privacy_small.labels import URL  # noqa: E402
from privacy_small.score import score  # noqa: E402
from privacy_small.sets import load  # noqa: E402


def data_folder() -> Path:
    roots = os.environ.get("ANEMONE_DATA", f"{ROOT.parent}/shared/data:{ROOT.parent}/shared/data_next")
    for root in roots.split(":"):
        if (Path(root) / "pii").is_dir():
            return Path(root) / "pii"
    print("skipped: no folder pii under the roots of ANEMONE_DATA")
    sys.exit(77)


def spans_of(anemone: str, bundle: list[str], texts: list[str]) -> list[list[tuple[int, int, str]]]:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    command = [anemone, "redact", "--jsonl", *(["--model", *bundle] if bundle else [])]
    answer = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
    records = [json.loads(line) for line in answer.stdout.decode().splitlines()]
    assert len(records) == len(texts)
    for record, text in zip(records, texts, strict=True):
        for span in record["spans"]:  # both kinds of places mean the same
            part = text[span["start"] : span["end"]]
            assert text.encode()[span["start_byte"] : span["end_byte"]].decode() == part, (text, span)
    return [[(s["start"], s["end"], s["label"]) for s in record["spans"]] for record in records]


def main(anemone: str, *bundle: str) -> int:
    data, report = data_folder(), Report()
    recorded = json.loads((ROOT / "models/privacy-small/scores.json").read_text())
    for name, limits in LIMITS.items():
        examples = load(name, data, data)
        found = score(examples, spans_of(anemone, list(bundle), [e.text for e in examples]))
        exact = found["all"]["f1"]
        report.at_least(f"{name} exact F1", exact, limits["f1"])
        report.at_least(f"{name} above rules alone", exact, recorded[name]["rules"]["all"]["f1"] + ABOVE_RULES)
        if "overlap_f1" in limits:
            report.at_least(f"{name} overlap F1", found["all"]["overlap_f1"], limits["overlap_f1"])
            report.line(found["left_in"] <= limits["left_in"], f"{name} left in: {found['left_in']:.3f}")
        for label, values in found["labels"].items() if "label_f1" in limits else ():
            report.at_least(f"{name} {label}", values["f1"], limits["url_f1" if label == URL else "label_f1"])
        change = abs(exact - recorded[name]["checkpoint"]["all"]["f1"])
        report.line(change <= SAME_SCORE, f"{name}: {change:.4f} from the scores of the checkpoint itself")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
