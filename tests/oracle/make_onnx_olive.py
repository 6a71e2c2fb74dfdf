#!/usr/bin/env python3
"""Makes the olive-* bundles of tests/data/onnx/models: decoders as Olive's passes leave them, with onnxruntime's logits.

    pip install olive-ai onnxruntime onnx torch transformers
    tests/oracle/make_onnx_olive.py tests/data/onnx/models [NAME ...]

Made with olive-ai 0.13, onnx 1.23, onnxruntime 1.31, from the bundles of make_onnx_models.py in the same folder.
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from olive.model import ONNXModelHandler
from olive.passes.olive_pass import create_pass_from_dict
from olive.passes.onnx.graph_surgeries import GraphSurgeries
from olive.passes.onnx.mnb_to_qdq import MatMulNBitsToQDQ
from olive.passes.onnx.peephole_optimizer import OnnxPeepholeOptimizer
from olive.passes.onnx.rtn_quantization import OnnxBlockWiseRtnQuantization

OUT, ONLY = sys.argv[1], sys.argv[2:]


def surgeries(*names):
    return GraphSurgeries, {"surgeries": [{"surgeon": name} for name in names]}


CASES = {
    # Quantized by Olive itself, the embedding too.
    "olive-qwen2-rtn": ("dynamo-qwen2-23", [(OnnxBlockWiseRtnQuantization, {"bits": 4, "block_size": 16})]),
    "olive-llama-rtn": ("torch-llama-eager", [
        (OnnxPeepholeOptimizer, {}), (OnnxBlockWiseRtnQuantization, {"bits": 8, "block_size": 32})]),
    # As for NPUs: lengths as inputs, norms written out, codes behind DequantizeLinear.
    "olive-llama-qdq": ("genai-llama-int4", [
        surgeries("AttentionMaskToSequenceLengths", "SimplifiedLayerNormToRMSNorm"),
        (MatMulNBitsToQDQ, {"use_int4": True})]),
    "olive-phi3-qdq": ("genai-phi3-longrope", [
        surgeries("RemoveRopeMultiCache", "AttentionMaskToSequenceLengths", "MatMulAddToGemm"),
        (MatMulNBitsToQDQ, {"use_transpose_op": True, "add_zero_point": True})]),
    # The head's codes become those of the embedding.
    "olive-qwen3-tied": ("dynamo-qwen3-18", [
        (OnnxBlockWiseRtnQuantization, {"bits": 4, "block_size": 32}), surgeries("TieWordEmbeddings")]),
}


def make(case, base, passes):
    work = tempfile.mkdtemp()
    handler = ONNXModelHandler(f"{OUT}/{base}/model.onnx")
    for i, (kind, config) in enumerate(passes):
        handler = create_pass_from_dict(kind, config, disable_search=True).run(handler, f"{work}/{i}")
    out = f"{OUT}/{case}"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(f"{OUT}/{base}", out)
    for old in ("model.onnx", "model.onnx.data"):
        if os.path.exists(f"{out}/{old}"):
            os.remove(f"{out}/{old}")
    model = onnx.load(handler.model_path)
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    onnx.save(model, f"{out}/model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=256)
    return out


def golden(out):
    model = onnx.load(f"{out}/model.onnx")
    for node in model.graph.node:
        for a in node.attribute:
            if a.name == "accuracy_level":
                a.i = 1
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ids = np.load(f"{out}/golden/input_ids.npy")[None]
    count = ids.shape[1]
    given = {"input_ids": ids, "attention_mask": np.ones((1, count), np.int64), "position_ids": np.arange(count)[None],
             "past_seq_len": np.array([[count - 1]], np.int32), "total_seq_len": np.array(count, np.int32)}
    feed = {i.name: given[i.name] if i.name in given else np.zeros((1, i.shape[1], 0, 16), np.float32)
            for i in session.get_inputs()}
    logits = next(o.name for o in session.get_outputs() if o.name.startswith("logits"))
    np.save(f"{out}/golden/logits.npy", session.run([logits], feed)[0][0].astype(np.float32))


for case, (base, passes) in CASES.items():
    if ONLY and case not in ONLY:
        continue
    folder = make(case, base, passes)
    golden(folder)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(folder) for f in fs)
    print(case, size, "bytes", flush=True)
