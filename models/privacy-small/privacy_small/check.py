"""Checks the stored model: its size, its tensors, its logits against transformers', its scores against the limits.

    python -m privacy_small.check CHECKPOINT --golden golden --scores scores.json --data DATA

Needs numpy and tokenizers, no torch. Prints one line a check; exit status 1 when one fails.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from .checkpoint import expected_shapes, read_checkpoint
from .forward import Network
from .labels import URL
from .score import Model, score
from .sets import load

MOST_BYTES = 4 * 1024 * 1024
LOGIT_TOLERANCE = 1e-4
ABOVE_RULES = 0.10
INT8_TOLERANCE = 0.01
SAME_SCORE = 0.002  # BLAS libraries add in different orders: a near tie may fall to the other side
LIMITS = {
    "faker": {"f1": 0.96, "label_f1": 0.90, "url_f1": 0.80},
    "presidio": {"f1": 0.82, "overlap_f1": 0.88, "left_in": 0.08},
}


class Report:
    def __init__(self):
        self.failed = 0

    def line(self, good: bool, text: str) -> None:
        self.failed += not good
        print(("ok      " if good else "FAILED  ") + text, flush=True)

    def at_least(self, what: str, found: float, limit: float) -> None:
        self.line(found >= limit, f"{what}: {found:.3f}, at least {limit:.3f}")


def check_files(folder: Path, golden: Path, report: Report) -> None:
    size = (folder / "model.safetensors").stat().st_size
    report.line(size <= MOST_BYTES, f"weights: {size} bytes, at most {MOST_BYTES}")
    config, weights = read_checkpoint(folder)
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    report.line(shapes == expected_shapes(config), f"tensors: {len(shapes)}, names and shapes as the config wants them")
    expected = np.load(golden / "logits.npy")
    logits = Network(config, weights).logits(np.load(golden / "input_ids.npy").tolist())
    error = float(np.abs(logits - expected).max())
    report.line(error <= LOGIT_TOLERANCE, f"logits: {error:.1e} from transformers', at most {LOGIT_TOLERANCE:.0e}")


def check_set(name: str, folder: Path, data: Path, recorded: dict, report: Report) -> None:
    examples = load(name, data, data)
    results = {}
    for form in ("fp16", "int8"):
        model = Model(folder, int8=form == "int8")
        results[form] = score(examples, [model(example.text) for example in examples])
    found, limits = results["fp16"], LIMITS[name]
    exact, rules = found["all"]["f1"], recorded["rules"]["all"]["f1"]
    report.at_least(f"{name} exact F1", exact, limits["f1"])
    report.at_least(f"{name} exact F1, above rules alone ({rules:.3f})", exact, rules + ABOVE_RULES)
    if "overlap_f1" in limits:
        report.at_least(f"{name} overlap F1", found["all"]["overlap_f1"], limits["overlap_f1"])
        report.line(
            found["left_in"] <= limits["left_in"],
            f"{name} left in: {found['left_in']:.3f}, at most {limits['left_in']:.3f}",
        )
    if "label_f1" in limits:
        for label, values in found["labels"].items():
            report.at_least(f"{name} {label}", values["f1"], limits["url_f1" if label == URL else "label_f1"])
    gap = abs(exact - results["int8"]["all"]["f1"])
    report.line(gap <= INT8_TOLERANCE, f"{name} int8: {gap:.4f} from fp16, at most {INT8_TOLERANCE}")
    change = abs(exact - recorded["checkpoint"]["all"]["f1"])
    report.line(change <= SAME_SCORE, f"{name} exact F1: {change:.4f} from scores.json, at most {SAME_SCORE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--golden", type=Path, required=True)
    parser.add_argument("--scores", type=Path, required=True, help="the recorded scores, with those of rules alone")
    parser.add_argument("--data", type=Path, required=True, help="folder of the faker and presidio sets")
    options = parser.parse_args()
    report = Report()
    check_files(options.checkpoint, options.golden, report)
    recorded = json.loads(options.scores.read_text(encoding="utf-8"))
    for name in LIMITS:
        check_set(name, options.checkpoint, options.data, recorded[name], report)
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
