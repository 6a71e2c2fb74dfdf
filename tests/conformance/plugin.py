"""pytest plugin: coremltools' own tests, unmodified, with every prediction made by `anemone predict`.

    ANEMONE=build/release/anemone pytest -p plugin --records results.jsonl .../coremltools/converters/mil/mil/ops/tests

Writes one JSON line a test:
    test       its id
    outcome    passed | failed | skipped
    applies    whether it had an ML Program predicted by us, images aside
    ops        operation types of the programs it predicted with (of those it loaded, where it never predicted)
    half       its backend is fp32, yet its program holds fp16 data: the test's own parameters ask for it. Its expected
               values are those of exact data and its tolerance is that of fp32, so rounding the data may fail it
    reason     why it does not apply, or the end of the failure
"""

import hashlib
import json
import os
import random
import sys

import exact_data
import numpy as np
import pytest
import stand_in

stand_in.install()


def pytest_addoption(parser):
    group = parser.getgroup("conformance")
    group.addoption("--records", help="file to append a JSON line per test to; tests already in it are left out")
    group.addoption("--precision", choices=["fp32", "fp16"], help="keep the tests with this backend precision")
    group.addoption("--arith", default="fp32", choices=["fp32", "fp16"], help="arithmetic of the prediction")
    group.addoption("--cap", type=int, default=0, help="at most N parametrisations of a test function")
    group.addoption("--exact-data", action="store_true", help="random data that fp16 holds exactly; see exact_data.py")
    group.addoption("--shard", default="0/1", help="I/N: the I-th of N equal parts")


def pytest_configure(config):
    binary = os.path.abspath(os.environ.get("ANEMONE", "build/release/anemone"))
    if not os.access(binary, os.X_OK):
        raise pytest.UsageError(f"no program at {binary}; set ANEMONE to the anemone command")
    stand_in.command = [binary, "predict", "--arith", config.getoption("--arith")]
    if config.getoption("--exact-data"):
        exact_data.install()
    config.pluginmanager.register(Recorder(config.getoption("--records")), "conformance-recorder")


# ------------------------------------------------------------------------------------------- which tests


def _digest(text):
    return int.from_bytes(hashlib.sha1(text.encode()).digest()[:8], "big")


def _backend(item):
    """(backend, precision) of a parametrised test; the suite has two spellings of it."""
    value = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    if isinstance(value, tuple) and len(value) == 2:
        return value
    if hasattr(value, "precision"):
        return value.backend, value.precision
    return None, None


def _wanted(item, precision):
    backend, own = _backend(item)
    return backend != "neuralnetwork" and (not precision or own in (None, precision))


def _capped(items, cap):
    """The same choice on every machine: the parametrisations with the lowest hashes."""
    groups = {}
    for item in items:
        groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = set()
    for group in groups.values():
        kept.update(sorted(group, key=lambda i: _digest(i.nodeid))[:cap])
    return [item for item in items if item in kept]


def pytest_collection_modifyitems(config, items):
    wanted = [item for item in items if _wanted(item, config.getoption("--precision"))]
    if config.getoption("--cap"):
        wanted = _capped(wanted, config.getoption("--cap"))
    part, parts = map(int, config.getoption("--shard").split("/"))
    wanted = [item for item in wanted if _digest("shard" + item.nodeid) % parts == part]
    done = _recorded(config.getoption("--records"))
    kept = [item for item in wanted if item.nodeid not in done]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _recorded(path):
    if not path or not os.path.exists(path):
        return set()
    with open(path) as file:
        return {json.loads(line)["test"] for line in file}


# ------------------------------------------------------------------------------------------- what happened


class Recorder(stand_in.Observer):
    def __init__(self, path):
        self.path = path
        self._forget()
        stand_in.observer = self

    def _forget(self):
        self.ops, self.loaded_ops, self.half, self.calls, self.refused = set(), set(), False, 0, None

    def loaded(self, program):
        self.loaded_ops |= program.ops

    def predicted(self, program):
        self.calls += 1
        self.ops |= program.ops
        self.half = self.half or program.half

    def refuse(self, reason):
        self.refused = reason
        pytest.skip(reason)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        """The suite draws unseeded random inputs: the same ones for a test however it is selected."""
        self._forget()
        seed = _digest(item.nodeid) % 2**32
        random.seed(seed)
        np.random.seed(seed)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)
        if self.path:
            with open(self.path + ".running", "w") as file:
                file.write(item.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if report.when == "call" or report.outcome != "passed":
            if report.when != "teardown":
                self._record(item, report)

    def pytest_collectreport(self, report):
        """A file that does not import counts as a failure, unless what it misses was left out on purpose."""
        if report.failed:
            reason = str(report.longrepr)
            left_out = any(f"'{name}'" in reason.splitlines()[-1] for name in ("torch", "tensorflow"))
            line = {"test": report.nodeid, "outcome": "failed", "applies": not left_out, "ops": [], "reason": reason[-3000:]}
            self._write(line)

    def _write(self, line):
        if self.path:
            with open(self.path, "a") as file:
                file.write(json.dumps(line) + "\n")

    def _record(self, item, report):
        reason = None
        if self.refused:
            reason = self.refused
        elif report.outcome == "failed":
            reason = report.longreprtext[-3000:]
        elif report.outcome == "skipped":
            expected = hasattr(report, "wasxfail")
            reason = "expected to fail: " + report.wasxfail if expected else str(report.longrepr[-1])
        elif not self.calls:
            reason = "never predicts"
        applies = bool(self.calls) and not self.refused and report.outcome != "skipped"
        self._write({
            "test": item.nodeid,
            "outcome": report.outcome,
            "applies": applies,
            "ops": sorted(self.ops or self.loaded_ops),
            "half": self.half and _backend(item)[1] == "fp32",
            "calls": self.calls,
            "seconds": round(report.duration, 3),
            "reason": reason,
        })
