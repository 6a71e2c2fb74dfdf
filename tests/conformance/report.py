#!/usr/bin/env python3
"""Prints what run.py recorded: passed / failed / not applicable per operation, and the share that passed.

    report.py build/conformance/results

Two classes of tests are counted apart. fp32: the program holds no fp16 data (or the test names no precision). Half
data: the backend is fp32, but the test's parameters put fp16 inputs or weights into the program and compare to 1e-4,
which is below fp16's rounding; many fail for that, as run.py --exact-data shows. They are tests that apply, so the
last line gives the share with them too.

Exit status 1 when a failure is not in known_failures.txt or under 98% of the fp32 tests that apply passed.
"""

import collections
import fnmatch
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
REQUIRED = 0.98


def read_records(folder):
    """suite -> records, the last one of a test counts"""
    suites = {}
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        suite = suites.setdefault(path.name.split(".")[0], {})
        for line in path.read_text().splitlines():
            record = json.loads(line)
            suite[record["test"]] = record
    return {name: list(tests.values()) for name, tests in suites.items()}


def read_known_failures(path=HERE / "known_failures.txt"):
    known = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition(" -- ")
            if not reason.strip():
                sys.exit(f"{path}: no reason given for {pattern}")
            known.append((pattern.strip().replace("[", "[[]"), reason.strip()))
    return known


def column(record):
    return record["outcome"] if record["applies"] else "n/a"


def is_half(record):
    return record["applies"] and record.get("half", False)


def table(title, rows):
    """rows: (name, Counter of passed, failed, n/a)"""
    print(f"{title:44} {'passed':>8} {'failed':>8} {'n/a':>8} {'share':>8}")
    for name, count in rows:
        applies = count["passed"] + count["failed"]
        share = f"{100 * count['passed'] / applies:.1f}%" if applies else "-"
        print(f"{name:44} {count['passed']:8} {count['failed']:8} {count['n/a']:8} {share:>8}")
    print()


def count_per_op(records):
    ops = collections.defaultdict(collections.Counter)
    for record in records:
        for op in record["ops"]:
            ops[op][column(record)] += 1
    return sorted(ops.items())


def reason_not_applicable(record):
    if record["outcome"] == "failed":
        return "failed before it predicted" if "::" in record["test"] else "needs what is not installed"
    reason = record["reason"] or ""
    return reason.splitlines()[0][:90] if reason else "never predicts"


def first_words(reason):
    lines = [line for line in (reason or "").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E ")]
    return " ".join(line[1:].strip() for line in (errors or lines)[:4])[:240]


def list_failures(records):
    """Prints the known ones by reason and the others one by one; gives the number of the others."""
    known, explained, unlisted = read_known_failures(), collections.Counter(), 0
    for record in records:
        if column(record) != "failed":
            continue
        reason = next((why for pattern, why in known if fnmatch.fnmatchcase(record["test"], pattern)), None)
        if reason:
            explained[reason] += 1
        else:
            unlisted += 1
            print(f"FAILED {record['test']}\n       {first_words(record['reason'])}")
    if explained:
        print("known failures")
    for reason, count in explained.most_common():
        print(f"  {count:6}  {reason}")
    return unlisted


def main():
    suites = read_records(sys.argv[1])
    everything = [record for records in suites.values() for record in records]
    if not everything:
        sys.exit(f"no results in {sys.argv[1]}")
    table("operation", count_per_op(everything))
    reasons = collections.Counter(reason_not_applicable(r) for r in everything if not r["applies"])
    print("not applicable because")
    for reason, count in reasons.most_common():
        print(f"  {count:6}  {reason}")
    print()
    unlisted = list_failures(everything)
    print()

    rows, total, total_half = [], collections.Counter(), collections.Counter()
    for name, records in suites.items():
        fp32 = collections.Counter(column(r) for r in records if not is_half(r))
        half = collections.Counter(column(r) for r in records if is_half(r))
        rows += [(name, fp32)] + ([(name + ", half data", half)] if half else [])
        total += fp32
        total_half += half
    table("suite", rows)
    applies = total["passed"] + total["failed"]
    share = total["passed"] / applies if applies else 0
    print(f"fp32: {total['passed']} of {applies} tests that apply passed, {100 * share:.2f}%; {unlisted} failures unexplained")
    passed = total["passed"] + total_half["passed"]
    both = applies + total_half["passed"] + total_half["failed"]
    print(f"with half data: {passed} of {both}, {100 * passed / max(both, 1):.2f}%")
    sys.exit(1 if unlisted or share < REQUIRED else 0)


if __name__ == "__main__":
    main()
