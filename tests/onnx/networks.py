#!/usr/bin/env python3
"""Whole ONNX networks from PyPI wheels: anemone's outputs beside onnxruntime's.

    networks.py ANEMONE FOLDER [--fp16] [--ane] [--verify] [--only=PART]

FOLDER holds what `pip download --no-deps silero-vad magika basic-pitch rapidocr piper-tts` fetched, unpacked, and what
make_encoders.py --minilm wrote. Needs onnxruntime and numpy. Prints one line per network; exit status 1 where one is
further than 1e-4 of its range (fp32; 5e-2 in fp16). bench/networks.py --wheels FOLDER takes the time of both.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

RNG = np.random.default_rng(7)


def noise(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def images(*shape):
    return RNG.uniform(-1, 1, size=shape).astype(np.float32)


def networks():
    """Path below FOLDER, and inputs."""
    audio = noise(1, 43844, 1) * 0.1
    yield "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": audio}
    yield "magika/models/standard_v3_3/model.onnx", {"bytes": RNG.integers(0, 257, (1, 2048)).astype(np.int32)}
    state = noise(2, 1, 128)
    speech = {"input": noise(1, 576) * 0.1, "state": state, "sr": np.array(16000, np.int64)}
    for name in ("silero_vad", "silero_vad_op18_ifless", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_openvino_16k"):
        yield f"silero_vad/data/{name}.onnx", speech
    data = {"input": noise(4, 576) * 0.1, "h": noise(1, 1, 128), "c": noise(1, 1, 128)}
    yield "silero_vad/data/silero_vad_16k_sequence.onnx", data
    yield "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": images(1, 3, 48, 192)}
    yield "rapidocr/models/PP-OCRv6_det_small.onnx", {"x": images(1, 3, 320, 320)}
    yield "rapidocr/models/PP-OCRv6_rec_small.onnx", {"x": images(1, 3, 48, 320)}
    yield "piper/hebrew/nakdimon.onnx", {"input_1": RNG.integers(1, 40, (1, 64)).astype(np.float32)}
    chars = {"char_inputs": RNG.integers(1, 30, (1, 48)), "diac_inputs": RNG.integers(1, 10, (1, 48)), "input_lengths": np.array([48])}
    yield "piper/tashkeel/model.onnx", {k: v.astype(np.int64) for k, v in chars.items()}
    mask = (np.arange(128) < 100).astype(np.int64).reshape(1, 128)
    text = {"input_ids": RNG.integers(5, 30000, (1, 128)), "attention_mask": mask}
    yield "minilm.onnx", text
    yield "minilm_dynamo.onnx", text


def convert(anemone, path, feed, flags, folder):
    """What convert says in JSON, or what went wrong."""
    command = [anemone, "convert", path, "-o", f"{folder}/net.mlpackage", "--overwrite", "--json", *flags]
    for name, value in feed.items():
        command += ["--shape", f"{name}={','.join(map(str, value.shape)) if value.shape else 'scalar'}"]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stderr.strip() if result.returncode else json.loads(result.stdout)


def features(anemone, folder, kind):
    """Names of the package's inputs or outputs."""
    info = json.loads(subprocess.run([anemone, "inspect", f"{folder}/net.mlpackage", "--json"], capture_output=True,
                                     text=True, check=True).stdout)
    return [f["name"] for f in info["functions"][0][kind]]


def inputs_of(anemone, folder, renamed, feed):
    """What the package takes of the feed, as in.npz."""
    taken = {renamed.get(name, name) for name in features(anemone, folder, "inputs")}
    kept = {k: v if v.shape else v.reshape(1) for k, v in feed.items() if k in taken}
    np.savez(f"{folder}/in.npz", **{k: v.astype(np.int32) if v.dtype == np.int64 else v for k, v in kept.items()})


def predict(anemone, folder):
    """The outputs, or what went wrong."""
    command = [anemone, "predict", f"{folder}/net.mlpackage", "--inputs", f"{folder}/in.npz", "--outputs",
               f"{folder}/out.npz", "--threads", "2"]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stderr.strip() if result.returncode else dict(np.load(f"{folder}/out.npz"))


def distance(got, want):
    worst = 0
    for name, expected in want.items():
        found = got.get(name)
        if found is None or found.shape != (expected.shape or (1,)):
            return f"output {name}: {None if found is None else found.shape} instead of {expected.shape}"
        size = max(np.abs(expected).max(), 1e-12)
        worst = max(worst, float(np.abs(found.astype(np.float64) - expected).max() / size))
    return worst


def open_session(path, threads=2):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feed_for(session, data):
    known = {i.name for i in session.get_inputs()}
    return {k: v for k, v in data.items() if k in known}


def run_one(anemone, path, data, flags, verify, folder):
    session = open_session(path)
    feed = feed_for(session, data)
    want = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))
    converted = convert(anemone, path, feed, flags, folder)
    if isinstance(converted, str):
        return "convert: " + converted
    renamed = converted["renamed"]
    inputs_of(anemone, folder, renamed, feed)
    result = predict(anemone, folder)
    if isinstance(result, str):
        return "predict: " + result
    worst = distance({renamed.get(k, k): v for k, v in result.items()}, want)
    if isinstance(worst, str):
        return worst
    line = f"{worst:.1e} of the range, {converted['nodes']} nodes, {converted['operations_before_passes']} operations, "
    line += f"{converted['operations']} after passes, converted in {converted['seconds']:.2f} s"
    if verify:
        done = subprocess.run([anemone, "verify", f"{folder}/net.mlpackage", "--source", path, "--inputs",
                               f"{folder}/in.npz"], capture_output=True, text=True)
        line += ", " + (done.stdout + done.stderr).strip().splitlines()[-1]
        if done.returncode:
            return "VERIFY: " + line
    return line if worst <= (1e-4 if "fp32" in flags else 5e-2) else "FAR: " + line


def main():
    anemone, folder = sys.argv[1:3]
    flags = ["--precision", "fp16" if "--fp16" in sys.argv else "fp32"] + (["--ane"] if "--ane" in sys.argv else [])
    only = [a[7:] for a in sys.argv if a.startswith("--only=")]
    bad = 0
    with tempfile.TemporaryDirectory() as temp:
        for name, data in networks():
            if only and only[0] not in name:
                continue
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                print(f"{name}: skipped, not there")
                continue
            line = run_one(anemone, path, data, flags, "--verify" in sys.argv, temp)
            bad += not line[0].isdigit()
            print(f"{name}: {line}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
