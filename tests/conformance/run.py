#!/usr/bin/env python3
"""Runs coremltools' own tests against `anemone predict`.

    run.py --sample                 a few hundred, without torch: what ./test runs
    run.py --cap 5                  every test function that works without torch, at most five parametrisations each
    run.py --torch                  all of them (hours)
    run.py --torch --suite torch-ops -k TestConv

Needs build/release/anemone, or the command named by ANEMONE. Makes a virtual environment with the pinned packages at
the first run (--venv DIR uses another one). Results go to --output, one JSON line a test; a run that was cut short is
taken up where it stopped when started again with --resume. Ends with report.py's table and its exit status.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MIL = "converters/mil"

# Where the wheel keeps tests of ML Programs. Those on TensorFlow are left out (they repeat the same ops); so are
# neural networks, trees and the like, which are no ML Programs.
SUITES = {
    "mil-ops": [f"{MIL}/mil/ops/tests"],
    "mil-programs": [f"{MIL}/mil/tests", f"{MIL}/test_inputs_outputs_shape.py"],
    "mil-passes": [f"{MIL}/mil/passes/tests"],
    "mil-backend": [f"{MIL}/backend/mil", f"{MIL}/frontend/milproto"],
    "torch-ops": [f"{MIL}/frontend/torch/test/test_torch_ops.py"],
    "torch-other": [f"{MIL}/frontend/torch/test"],
    "ml-program": ["test/ml_program", "test/api", "test/modelpackage", "test/blob"],
    "optimize": ["test/optimize/coreml", "test/optimize/api", "test/optimize/torch/conversion", "optimize/coreml"],
}
LEFT_OUT = {"torch-other": [f"{MIL}/frontend/torch/test/test_torch_ops.py"]}
TORCH_ONLY = {"torch-ops", "torch-other"}

SAMPLE_SUITES = ["mil-ops", "mil-backend"]
SAMPLE_CAP = 1


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", action="store_true", help="the small run without torch")
    parser.add_argument("--torch", action="store_true", help="with torch installed, which most of the tests need")
    parser.add_argument("--suite", action="append", choices=SUITES, help="only these; may be given several times")
    parser.add_argument("--cap", type=int, default=0, help="at most N parametrisations of a test function")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "fp16"], help="backend precision of the tests")
    parser.add_argument("--arith", default="fp32", choices=["fp32", "fp16"], help="arithmetic of the predictions")
    parser.add_argument("--exact-data", action="store_true", help="random data that fp16 holds exactly: a control run")
    parser.add_argument("--all-opsets", action="store_true", help="each test with every opset that has its ops")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build/conformance/venv")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/conformance/results")
    parser.add_argument("--resume", action="store_true", help="keep the results that are there")
    parser.add_argument("-k", dest="keyword", help="as in pytest")
    return parser.parse_args()


def prepare(folder, with_torch):
    """The Python of a virtual environment that has what the tests need."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = [HERE / "requirements.txt"] + ([HERE / "requirements-torch.txt"] if with_torch else [])
    probe = "import coremltools, pytest, scipy, PIL" + (", torch, torchvision" if with_torch else "")
    if subprocess.run([python, "-c", probe], capture_output=True).returncode:
        for file in wanted:
            subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", file], check=True)
    return python


def packages_folder(python):
    line = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return pathlib.Path(subprocess.run([python, "-c", line], capture_output=True, text=True, check=True).stdout.strip())


def environment(args):
    env = dict(os.environ)
    env["PYTHONPATH"] = str(HERE)
    env["PYMIL_TEST_TARGETS"] = "mlprogram"
    env["INCLUDE_MIL_FP32_UNIT_TESTS"] = "1"
    env["RUN_BACKWARD_COMPATIBILITY"] = "1" if args.all_opsets else "0"
    env.setdefault("ANEMONE", str(ROOT / "build/release/anemone"))
    env["OMP_NUM_THREADS"] = env["MKL_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"  # the jobs share the cores
    return env


def pytest_line(args, python, suite, shard, records):
    site = packages_folder(python)
    line = [python, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-q", "--no-header", "--tb=short"]
    line += ["--continue-on-collection-errors"]
    line += ["--disable-warnings", f"--rootdir={site}", f"--records={records}", f"--shard={shard}/{args.jobs}"]
    line += [f"--precision={args.precision}", f"--arith={args.arith}", f"--cap={args.cap}"]
    line += ["--exact-data"] if args.exact_data else []
    line += [f"--ignore={site / 'coremltools' / path}" for path in LEFT_OUT.get(suite, [])]
    if args.keyword:
        line += ["-k", args.keyword]
    return line + [site / "coremltools" / path for path in SUITES[suite]]


def run_suite(args, python, suite):
    """One pytest process a shard; one that crashes is started again behind the test that crashed it. Gives whether all
    of them came to their end."""
    env, waiting, fine = environment(args), [], True
    for shard in range(args.jobs):
        records = args.output / f"{suite}.{shard}.jsonl"
        line = pytest_line(args, python, suite, shard, records)
        waiting.append((line, records, start(line, records, env)))
    while waiting:
        line, records, process = waiting.pop(0)
        if process.wait() < 0 or process.returncode > 128:
            note_crash(records, process.returncode)
            waiting.append((line, records, start(line, records, env)))
        elif process.returncode not in (0, 1, 5):  # fine, some failed, none selected
            sys.stderr.write(f"{suite}: pytest ended with status {process.returncode}, see {records}.log\n")
            fine = False
    return fine


def start(line, records, env):
    with open(f"{records}.log", "a") as log:
        return subprocess.Popen(line, env=env, stdout=log, stderr=subprocess.STDOUT, cwd=records.parent)


def note_crash(records, status):
    test = pathlib.Path(f"{records}.running").read_text()
    crash = {"test": test, "outcome": "failed", "applies": True, "ops": [], "reason": f"the test process died: {status}"}
    with open(records, "a") as file:
        file.write(json.dumps(crash) + "\n")


def main():
    args = parse_arguments()
    suites = args.suite or [s for s in SUITES if args.torch or s not in TORCH_ONLY]
    if args.sample:
        suites, args.cap = SAMPLE_SUITES, args.cap or SAMPLE_CAP
    args.output = args.output.resolve()
    args.output.mkdir(parents=True, exist_ok=True)
    if not args.resume:
        for old in args.output.glob("*.jsonl*"):
            old.unlink()
    python = prepare(args.venv, args.torch)
    fine = all([run_suite(args, python, suite) for suite in suites])
    judged = subprocess.run([sys.executable, HERE / "report.py", args.output]).returncode
    sys.exit(judged or (0 if fine else 1))


if __name__ == "__main__":
    main()
