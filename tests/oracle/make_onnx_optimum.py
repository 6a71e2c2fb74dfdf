#!/usr/bin/env python3
"""Makes the optimum-* bundles of tests/data/onnx/models: decoders as Optimum exports them, with onnxruntime's logits.

    pip install optimum-onnx "transformers<5" torch onnx onnxruntime
    tests/oracle/make_onnx_optimum.py tests/data/onnx/models [NAME ...]

Made with optimum-onnx 0.1.0, transformers 4.57.6, torch 2.15, onnx 1.23, onnxruntime 1.31. Weights are random. Optimum
traces the model: of longrope only the short factors are left, and Gemma 3 takes no positions.
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from optimum.exporters.onnx import main_export
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, Phi3Config, Phi3ForCausalLM

OUT, ONLY = sys.argv[1], sys.argv[2:]
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LONG = dict(type="longrope", short_factor=[1 + 0.05 * i for i in range(8)], long_factor=[1 + 0.4 * i for i in range(8)])
CASES = {
    "optimum-phi3-q4": (Phi3ForCausalLM, Phi3Config(**SIZES, original_max_position_embeddings=64, rope_scaling=LONG)),
    # One layer sees a window and has a rope of its own, the other sees all.
    "optimum-gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(
        **SIZES, head_dim=16, query_pre_attn_scalar=24, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"])),
}


def export(out, kind, config, q4):
    work = tempfile.mkdtemp()
    torch.manual_seed(11)
    model = kind(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.mul_(4.0)
    model.save_pretrained(f"{work}/hf")
    main_export(f"{work}/hf", f"{work}/onnx", task="text-generation-with-past", do_validation=False)
    made = onnx.load(f"{work}/onnx/model.onnx")
    if q4:
        quantizer = MatMulNBitsQuantizer(made, bits=4, block_size=16, is_symmetric=False, accuracy_level=4)
        quantizer.process()
        made = quantizer.model.model
    for node in made.graph.node:
        node.doc_string = ""
    del made.graph.value_info[:]
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    onnx.save(made, f"{out}/model.onnx")
    shutil.copy(f"{work}/onnx/config.json", out)


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
    ids = np.random.default_rng(3).integers(0, 64, (1, 12))
    given = {"input_ids": ids, "attention_mask": np.ones((1, 12), np.int64), "position_ids": np.arange(12)[None]}
    feed = {i.name: given[i.name] if i.name in given else np.zeros((1, 1, 0, 16), np.float32)
            for i in session.get_inputs()}
    os.makedirs(f"{out}/golden")
    np.save(f"{out}/golden/input_ids.npy", ids[0])
    np.save(f"{out}/golden/logits.npy", session.run(["logits"], feed)[0][0])


for case, (kind, config) in CASES.items():
    if ONLY and case not in ONLY:
        continue
    folder = f"{OUT}/{case}"
    export(folder, kind, config, case.endswith("q4"))
    golden(folder)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)
    print(case, size, "bytes", flush=True)
