#!/usr/bin/env python3
"""Bundles that are changes of those of make_onnx_models.py, without torch: experts, and weights that share codes.

    make_onnx_experts.py tests/data/onnx

| file | what is changed |
|---|---|
| shared_codes | models/qmoe-qwen3-rows4, whose second layer takes the codes of the first, with its own scales |
| shared_blocks | models/genai-qwen3-int4, whose second layer takes the 4-bit codes of the first, with its own scales |
| many_experts.onnx | the graph of moe-qwen3-flat with 2049 experts, whose numbers are in a file zeros.bin |
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime as ort

os.environ["ORT_QMOE_CPU_QNBIT_GEMM"] = "0"
OUT = sys.argv[1]
SHAPES = {"router": [32, 2049], "gate_up": [2049, 4, 32], "down": [2049, 32, 2]}


def golden(out):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(f"{out}/model.onnx", options, providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(3).integers(0, 64, (1, 12))
    feed = {"input_ids": ids, "attention_mask": np.ones((1, 12), np.int64), "position_ids": np.arange(12)[None]}
    for i in session.get_inputs():
        if i.name.startswith("past"):
            feed[i.name] = np.zeros((1, i.shape[1], 0, 16), np.float32)
    feed = {i.name: feed[i.name] for i in session.get_inputs()}
    os.makedirs(f"{out}/golden", exist_ok=True)
    np.save(f"{out}/golden/input_ids.npy", ids[0])
    np.save(f"{out}/golden/logits.npy", session.run(["logits"], feed)[0][0].astype(np.float32))


def shared():
    out = f"{OUT}/shared_codes"
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    shutil.copy(f"{OUT}/models/qmoe-qwen3-rows4/genai_config.json", out)
    model = onnx.load(f"{OUT}/models/qmoe-qwen3-rows4/model.onnx")
    first, second = [n for n in model.graph.node if n.op_type == "QMoE"]
    for i in (2, 5):
        second.input[i] = first.input[i]
    used = {i for n in model.graph.node for i in n.input}
    for t in [t for t in model.graph.initializer if t.name not in used]:
        model.graph.initializer.remove(t)
    onnx.save(model, f"{out}/model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=256)
    golden(out)


def shared_blocks():
    source, out = f"{OUT}/models/genai-qwen3-int4", f"{OUT}/shared_blocks"
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    shutil.copy(f"{source}/genai_config.json", out)
    model = onnx.load(f"{source}/model.onnx")
    nodes = {n.name: n for n in model.graph.node if n.op_type == "MatMulNBits"}
    shared_count = 0
    for name, node in nodes.items():
        for attribute in node.attribute:  # products of floats, as anemone computes them
            if attribute.name == "accuracy_level":
                attribute.i = 1
        first = nodes.get(name.replace("/layers.1/", "/layers.0/"))
        if first is not None and first is not node:
            node.input[1] = first.input[1]
            shared_count += 1
    assert shared_count > 3
    used = {i for n in model.graph.node for i in n.input}
    for t in [t for t in model.graph.initializer if t.name not in used]:
        model.graph.initializer.remove(t)
    onnx.save(model, f"{out}/model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=256)
    golden(out)


def many():
    model = onnx.load(f"{OUT}/models/moe-qwen3-flat/model.onnx", load_external_data=False)
    for t in model.graph.initializer:
        if t.name.endswith((".router", ".gate_up.weight", ".down.weight")):
            dims = SHAPES[t.name.split(".")[2]]
            del t.dims[:]
            t.dims.extend(dims)
            del t.external_data[:]
            for key, value in (("location", "zeros.bin"), ("offset", "0"), ("length", str(4 * int(np.prod(dims))))):
                t.external_data.add(key=key, value=value)
    with open(f"{OUT}/many_experts.onnx", "wb") as f:
        f.write(model.SerializeToString())


shared()
shared_blocks()
many()
