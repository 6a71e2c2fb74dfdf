#!/usr/bin/env python3
"""Makes tests/data/onnx/models: very small decoders as exporters write them, with the logits that onnxruntime gives.

    pip install numpy onnx onnxscript onnxruntime onnxruntime-genai transformers torch
    tests/oracle/make_onnx_models.py tests/data/onnx/models [NAME ...]

Made with onnx 1.23, onnxruntime 1.31, onnxruntime-genai 0.18, transformers 5.22, torch 2.9. Weights are random. The
logits are of an empty cache, with MatMulNBits at accuracy level 1 (activations stay fp32); where activations are
quantized at run time, of the same graph with the weights made plain. The seeds of the fuzzer:

    tests/oracle/make_onnx_models.py tests/fuzz/corpus/onnx_recover seeds
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import numpy_helper as nh
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)
from transformers.cache_utils import DynamicCache

OUT, ONLY = sys.argv[1], sys.argv[2:]
WORK = tempfile.mkdtemp()
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LONG = dict(rope_type="longrope", type="longrope", rope_theta=10000.0, short_factor=[1 + 0.05 * i for i in range(8)],
            long_factor=[1 + 0.4 * i for i in range(8)])
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES, tie_word_embeddings=False)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True,
                                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # Another vocabulary: the builder takes a fused qkv of as many rows as there are tokens for the head.
    "phi3": (Phi3ForCausalLM, Phi3Config(**SIZES | dict(vocab_size=72), tie_word_embeddings=False, original_max_position_embeddings=64,
                                         rope_parameters=LONG)),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config(**SIZES, head_dim=16, query_pre_attn_scalar=24, sliding_window=5)),
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=1,
                                         eos_token_id=2)),
}


def hugging_face(name):
    """A folder with the model: random, with gains and biases that matter."""
    folder = f"{WORK}/{name}"
    if os.path.exists(folder):
        return folder
    kind, config = MODELS[name]
    torch.manual_seed(11)
    model = kind(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * (0.2 if "norm" in key or "ln" in key else 0.05))
            else:
                p.mul_(4.0)
    model.save_pretrained(folder)
    return folder


def genai(out, name, precision, **options):
    folder = hugging_face(name)
    with open(f"{folder}/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, f)
    from tokenizers import Tokenizer, models
    Tokenizer(models.BPE({chr(33 + i): i for i in range(60)}, [])).save(f"{folder}/tokenizer.json")
    extra = ["--extra_options"] + [f"{k}={v}" for k, v in options.items()] if options else []
    subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", folder, "-o", out, "-p", precision,
                    "-e", "cpu", "-c", f"{WORK}/cache", *extra], check=True, capture_output=True)
    for file in os.listdir(out):
        if file not in ("model.onnx", "model.onnx.data", "genai_config.json"):
            os.remove(f"{out}/{file}")


class WithCache(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, past):
        cache = DynamicCache()
        for i in range(len(past) // 2):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                         past_key_values=cache, use_cache=True)
        return (out.logits, *[t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)])


def exported(out, name, opset, dynamo, attention):
    folder = hugging_face(name)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention).eval().float()
    config = model.config
    layers, heads = config.num_hidden_layers, getattr(config, "num_key_value_heads", config.num_attention_heads)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tokens, before = 5, 3
    past = [torch.randn(2, heads, before, size) for _ in range(2 * layers)]
    position = torch.arange(before, before + tokens).unsqueeze(0).expand(2, tokens).contiguous()
    args = (torch.randint(0, 60, (2, tokens)), torch.ones(2, tokens + before, dtype=torch.int64), position, past)
    caches = [f"past_key_values.{i}.{k}" for i in range(layers) for k in ("key", "value")]
    names = ["input_ids", "attention_mask", "position_ids"] + caches
    outputs = ["logits"] + [n.replace("past_key_values", "present") for n in caches]
    os.makedirs(out)
    if dynamo:
        auto = torch.export.Dim.AUTO
        two = {0: auto, 1: auto}
        torch.onnx.export(WithCache(model), args, f"{out}/model.onnx", input_names=names, output_names=outputs,
                          dynamic_shapes=(two, two, two, [{0: auto, 2: auto} for _ in past]), dynamo=True,
                          opset_version=opset, external_data=False, verbose=False)
    else:
        axes = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "total"},
                "position_ids": {0: "batch", 1: "seq"}} | {n: {0: "batch", 2: "past"} for n in caches}
        torch.onnx.export(WithCache(model), args, f"{out}/model.onnx", input_names=names, output_names=outputs,
                          dynamic_axes=axes, dynamo=False, opset_version=opset)
    shutil.copy(f"{folder}/config.json", out)
    graph = onnx.load(f"{out}/model.onnx")
    for node in graph.graph.node:  # where it came from, longer than the graph itself
        node.doc_string = ""
        del node.metadata_props[:]
    del graph.graph.value_info[:]
    onnx.save(graph, f"{out}/model.onnx")


def dynamic(out, name):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    exported(out, name, 17, False, "eager")
    quantize_dynamic(f"{out}/model.onnx", f"{out}/q.onnx", weight_type=QuantType.QInt8, per_channel=True)
    os.replace(f"{out}/q.onnx", f"{out}/model.onnx")


def made_plain(model):
    """MatMulInteger behind DynamicQuantizeLinear as MatMul with the weights that it stands for."""
    inits = {t.name: t for t in model.graph.initializer}
    made = {o: n for n in model.graph.node for o in n.output}
    for node in list(model.graph.node):
        if node.op_type != "MatMulInteger":
            continue
        quantize = made[node.input[0]]
        cast = next(n for n in model.graph.node if node.output[0] in n.input)
        mul = next(n for n in model.graph.node if cast.output[0] in n.input)
        scales = made[[i for i in mul.input if i != cast.output[0]][0]]
        scale = [i for i in scales.input if i in inits][0]
        w = nh.to_array(inits[node.input[1]]).astype(np.float32)
        if len(node.input) > 3:
            w = w - nh.to_array(inits[node.input[3]]).astype(np.float32)
        w = w * nh.to_array(inits[scale])
        model.graph.initializer.append(nh.from_array(w.astype(np.float32), node.output[0] + "_w"))
        plain = onnx.helper.make_node("MatMul", [quantize.input[0], node.output[0] + "_w"], [mul.output[0]])
        at = list(model.graph.node).index(mul)
        model.graph.node.remove(mul)
        model.graph.node.insert(at, plain)
    return model


def golden(out):
    model = made_plain(onnx.load(f"{out}/model.onnx"))
    for node in model.graph.node:
        for a in node.attribute:
            if a.name == "accuracy_level":
                a.i = 1
            if a.name == "sliding_window_cache":  # the kernel wants a full cache then
                a.i = 0
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(3).integers(0, 64, (1, 12))
    feed = {}
    types = {"tensor(int64)": np.int64, "tensor(float)": np.float32, "tensor(float16)": np.float16}
    for i in session.get_inputs():
        if i.name == "input_ids":
            feed[i.name] = ids
        elif i.name == "attention_mask":
            feed[i.name] = np.ones((1, 12), np.int64)
        elif i.name == "position_ids":
            feed[i.name] = np.arange(12)[None]
        else:
            feed[i.name] = np.zeros((1, i.shape[1], 0, 16), types[i.type])
    logits = session.run(["logits"], feed)[0][0].astype(np.float32)
    os.makedirs(f"{out}/golden", exist_ok=True)
    np.save(f"{out}/golden/input_ids.npy", ids[0])
    np.save(f"{out}/golden/logits.npy", logits)


CASES = {
    "genai-llama-int4": lambda out: genai(out, "llama", "int4", int4_is_symmetric="false", int4_block_size=16),
    "genai-llama-qdq": lambda out: genai(out, "llama", "int4", use_qdq="true", int4_block_size=16),
    "genai-qwen3-int4": lambda out: genai(out, "qwen3", "int4", int4_block_size=16),
    "genai-qwen3-int8": lambda out: genai(out, "qwen3", "int8"),
    "genai-qwen2-fp16": lambda out: genai(out, "qwen2", "fp16"),
    "genai-phi3-longrope": lambda out: genai(out, "phi3", "int4", int4_block_size=16),
    "genai-gemma2-int4": lambda out: genai(out, "gemma2", "int4", int4_block_size=16),
    "torch-llama-eager": lambda out: exported(out, "llama", 17, False, "eager"),
    "torch-llama-dynamic": lambda out: dynamic(out, "llama"),
    "torch-gemma2-eager": lambda out: exported(out, "gemma2", 17, False, "eager"),
    "torch-gpt2": lambda out: exported(out, "gpt2", 17, False, "sdpa"),
    "dynamo-qwen3-18": lambda out: exported(out, "qwen3", 18, True, "sdpa"),
    "dynamo-qwen2-23": lambda out: exported(out, "qwen2", 23, True, "sdpa"),
}


def seeds(folder):
    """The smallest graphs there can be, first inputs of the fuzzer: tests/fuzz/corpus/onnx_recover."""
    small = dict(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                 num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=False)
    MODELS["seed"] = (LlamaForCausalLM, LlamaConfig(**small | dict(vocab_size=64)))
    os.makedirs(folder, exist_ok=True)
    for name, opset, dynamo in (("torch", 17, False), ("dynamo", 23, True)):
        out = f"{WORK}/seed-{name}"
        exported(out, "seed", opset, dynamo, "sdpa")
        shutil.copy(f"{out}/model.onnx", f"{folder}/{name}.onnx")


if ONLY == ["seeds"]:
    seeds(OUT)
    sys.exit()
for case, make in CASES.items():
    if ONLY and case not in ONLY:
        continue
    folder = f"{OUT}/{case}"
    shutil.rmtree(folder, ignore_errors=True)
    make(folder)
    golden(folder)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)
    print(case, size, "bytes", flush=True)
