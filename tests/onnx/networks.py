#!/usr/bin/env python3
"""Whole ONNX networks from PyPI wheels: anemone's outputs beside onnxruntime's, and the time of both.

    networks.py ANEMONE FOLDER [--fp16] [--time]

FOLDER holds what `pip download --no-deps silero-vad magika basic-pitch rapidocr piper-tts` fetched, unpacked. Needs
onnxruntime and numpy. Prints one line per network; exit status 1 where one is further than 1e-4 of its range (fp32).
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

RNG = np.random.default_rng(7)


def noise(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def images(*shape):
    return RNG.uniform(-1, 1, size=shape).astype(np.float32)


def networks():
    """Path below FOLDER, inputs, and those that are fixed."""
    audio = noise(1, 43844, 1) * 0.1
    yield "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": audio}, []
    yield "magika/models/standard_v3_3/model.onnx", {"bytes": RNG.integers(0, 257, (1, 2048)).astype(np.int32)}, []
    state = noise(2, 1, 128)
    for name in ("silero_vad.onnx", "silero_vad_op18_ifless.onnx", "silero_vad_16k_op15.onnx"):
        data = {"input": noise(1, 576) * 0.1, "state": state, "sr": np.array(16000, np.int64)}
        yield "silero_vad/data/" + name, data, ["sr"]
        yield "silero_vad/data/" + name, data, []
    yield "silero_vad/data/silero_vad_half.onnx", {"input": noise(1, 576) * 0.1, "state": state}, []
    yield "silero_vad/data/silero_vad_openvino_16k.onnx", {"input": noise(1, 576) * 0.1, "state": state}, []
    data = {"input": noise(4, 576) * 0.1, "h": noise(1, 1, 128), "c": noise(1, 1, 128)}
    yield "silero_vad/data/silero_vad_16k_sequence.onnx", data, []
    yield "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": images(1, 3, 48, 192)}, []
    yield "rapidocr/models/PP-OCRv6_det_small.onnx", {"x": images(1, 3, 320, 320)}, []
    yield "rapidocr/models/PP-OCRv6_rec_small.onnx", {"x": images(1, 3, 48, 320)}, []
    yield "piper/hebrew/nakdimon.onnx", {"input_1": RNG.integers(1, 40, (1, 64)).astype(np.float32)}, []
    chars = {"char_inputs": RNG.integers(1, 30, (1, 48)), "diac_inputs": RNG.integers(1, 10, (1, 48)), "input_lengths": np.array([48])}
    yield "piper/tashkeel/model.onnx", {k: v.astype(np.int64) for k, v in chars.items()}, []


def median(run, count=9):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[count // 2] * 1000


def run_one(anemone, path, data, fixed, half, timed, folder):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known = {i.name for i in session.get_inputs()}
    feed = {k: v for k, v in data.items() if k in known}
    want = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))
    package = os.path.join(folder, "net.mlpackage")
    command = [anemone, "convert", path, "-o", package, "--overwrite", "--precision", "fp16" if half else "fp32"]
    for name, value in feed.items():
        if name in fixed:
            np.save(os.path.join(folder, "fixed.npy"), value)
            command += ["--constant", f"{name}={folder}/fixed.npy"]
        else:
            command += ["--shape", f"{name}={','.join(map(str, value.shape)) if value.shape else 'scalar'}"]
    start = time.perf_counter()
    result = subprocess.run(command, capture_output=True, text=True)
    converted = time.perf_counter() - start
    if result.returncode:
        return "convert: " + result.stderr.strip()
    np.savez(os.path.join(folder, "in.npz"), **{k: v if v.shape else v.reshape(1) for k, v in feed.items() if k not in fixed})
    command = [anemone, "predict", package, "--inputs", f"{folder}/in.npz", "--outputs", f"{folder}/out.npz", "--repeat", "9" if timed else "1", "--time"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        return "predict: " + result.stderr.strip()
    got = np.load(os.path.join(folder, "out.npz"))
    worst = 0
    for (name, expected), found in zip(sorted(want.items()), [got[k] for k in sorted(got.files)]):
        pass
    values = {k: got[k] for k in got.files}
    for name, expected in want.items():
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        found = values.get(clean, values.get("v_" + clean))
        if found is None or found.shape != (expected.shape or (1,)):
            return f"output {name}: {None if found is None else found.shape} instead of {expected.shape}"
        size = max(np.abs(expected).max(), 1e-12)
        worst = max(worst, float(np.abs(found.astype(np.float64) - expected).max() / size))
    line = f"{worst:.1e} of the range, converted in {converted:.2f} s"
    if timed:
        ours = result.stdout.split("median ")[-1].strip()
        line += f", anemone {ours}, onnxruntime {median(lambda: session.run(None, feed)):.3f} ms"
    return line if worst <= (5e-2 if half else 1e-4) else "FAR: " + line


def main():
    anemone, folder = sys.argv[1:3]
    half, timed = "--fp16" in sys.argv, "--time" in sys.argv
    only = [a[7:] for a in sys.argv if a.startswith("--only=")]
    bad = 0
    with tempfile.TemporaryDirectory() as temp:
        for name, data, fixed in networks():
            if only and only[0] not in name:
                continue
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                print(f"{name}: skipped, not there")
                continue
            line = run_one(anemone, path, data, fixed, half, timed, temp)
            bad += not line[0].isdigit()
            print(f"{name}{' (fixed: ' + ', '.join(fixed) + ')' if fixed else ''}: {line}")
    return 1 if bad else 0


sys.exit(main())
