#!/usr/bin/env python3
"""Makes tests/data/onnx/models: very small decoders as exporters write them, with the logits that onnxruntime gives.

    pip install numpy onnx onnxscript onnxruntime onnxruntime-genai transformers torch accelerate
    tests/oracle/make_onnx_models.py tests/data/onnx/models [NAME ...]

Made with onnx 1.23, onnxruntime 1.31, onnxruntime-genai 0.18, transformers 5.22, torch 2.9 (experts: 5.23, 2.15).
Weights are random. The logits are of an empty cache, with MatMulNBits at accuracy level 1 and QMoE without its 8-bit
kernels (activations stay fp32); where activations are quantized at run time, of the same graph with the weights made
plain. The seeds of the fuzzer:

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
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig,
                          GPT2Config, GPT2LMHeadModel, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM,
                          Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
from transformers.cache_utils import DynamicCache

os.environ["ORT_QMOE_CPU_QNBIT_GEMM"] = "0"  # 8-bit blocks of QMoE with fp32 activations
OUT, ONLY = sys.argv[1], sys.argv[2:]
WORK = tempfile.mkdtemp()
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LONG = dict(rope_type="longrope", type="longrope", rope_theta=10000.0, short_factor=[1 + 0.05 * i for i in range(8)],
            long_factor=[1 + 0.4 * i for i in range(8)])
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64, beta_fast=4.0,
            beta_slow=1.0, truncate=False)
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES, tie_word_embeddings=False)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True,
                                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # Another vocabulary: the builder takes a fused qkv of as many rows as there are tokens for the head.
    "phi3": (Phi3ForCausalLM, Phi3Config(**SIZES | dict(vocab_size=72), tie_word_embeddings=False, original_max_position_embeddings=64,
                                         rope_parameters=LONG)),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config(**SIZES, head_dim=16, query_pre_attn_scalar=24, sliding_window=5)),
    # One layer sees a window and has a rope of its own, the other sees all.
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(**SIZES, head_dim=16, query_pre_attn_scalar=24, sliding_window=5,
                                                   layer_types=["sliding_attention", "full_attention"])),
    "gptoss": (GptOssForCausalLM, GptOssConfig(**SIZES | dict(intermediate_size=32), head_dim=16, sliding_window=5,
                                               num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False,
                                               rope_parameters=YARN)),
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
    if name == "gptoss":
        as_mxfp4(folder)
    return folder


def as_mxfp4(folder):
    """gpt-oss as it is published: experts as FP4 codes [experts, out, in / 32, 16] with a power of two a block."""
    tensors, rng = load_file(f"{folder}/model.safetensors"), np.random.default_rng(7)
    for key in [k for k in tensors if k.endswith(("gate_up_proj", "down_proj"))]:
        experts, width, out = tensors.pop(key).shape
        blocks = rng.integers(0, 256, (experts, out, width // 32, 16), np.uint8)
        tensors[key + "_blocks"] = torch.from_numpy(blocks)
        tensors[key + "_scales"] = torch.from_numpy(rng.integers(121, 125, blocks.shape[:3], np.uint8))
    save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
    with open(f"{folder}/config.json") as f:
        config = json.load(f)
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=[
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config, f)


def genai(out, name, precision, **options):
    folder = hugging_face(name)
    with open(f"{folder}/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, f)
    from tokenizers import Tokenizer, models
    Tokenizer(models.BPE({chr(33 + i): i for i in range(60)}, [])).save(f"{folder}/tokenizer.json")
    extra = ["--extra_options"] + [f"{k}={v}" for k, v in options.items()] if options else []
    subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", folder, "-o", out, "-p", precision,
                    "-e", "cpu", "-c", f"{WORK}/cache", *extra], check=True, stdout=subprocess.DEVNULL)
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


def pack(codes, bits):
    """Codes along the last axis, the first in the lowest bits."""
    per = 8 // bits
    codes = codes.reshape(codes.shape[:-1] + (-1, per)).astype(np.uint32)
    return sum(codes[..., i] << (bits * i) for i in range(per)).astype(np.uint8)


def stack(inits, name, shape, bits, block, zeros, rng):
    """Random weights [experts, rows, in] as initializers; their names: weights, scales, zero points."""
    names = [f"{name}.{part}" for part in ("weight", "scales", "zeros")]
    if not bits:
        inits.append(nh.from_array((rng.standard_normal(shape) * 0.15).astype(np.float32), names[0]))
        return names[0], "", ""
    blocks = shape[:2] + ((shape[2] // block,) if block else ())
    inits.append(nh.from_array(pack(rng.integers(0, 2**bits, shape), bits), names[0]))
    inits.append(nh.from_array((rng.uniform(0.5, 1, blocks) * 0.5 / 2**bits).astype(np.float32), names[1]))
    if zeros:
        inits.append(nh.from_array(pack(rng.integers(0, 2**bits, blocks), bits), names[2]))
    return names[0], names[1], names[2] if zeros else ""


def experts(out, bits=0, block=0, zeros=False, flat=False, **attributes):
    """Qwen3 of the GenAI builder with MoE or QMoE in place of each MLP. The builder has no Qwen3-MoE of its own."""
    genai(out, "qwen3", "fp32")
    model, rng = onnx.load(f"{out}/model.onnx"), np.random.default_rng(9)
    count, hidden, width = 4, 32, 32
    inits, nodes = model.graph.initializer, []
    inits.append(nh.from_array(np.array([-1, count]), "router_shape"))
    inits.append(nh.from_array(np.array([-1, hidden]), "flat_shape"))
    for node in model.graph.node:
        if "/mlp/" not in node.name:
            nodes.append(node)
        if not node.name.endswith("/mlp/down_proj/MatMul"):
            continue
        at = node.name[:-len("/mlp/down_proj/MatMul")]
        x, y = f"{at}/post_attention_layernorm/output_0", node.output[0]
        make = lambda op, ins, outs, **a: nodes.append(
            onnx.helper.make_node(op, ins, outs, f"{at}/{outs[0]}/{op}", **a))
        inits.append(nh.from_array(rng.standard_normal((hidden, count)).astype(np.float32), f"{at}.router"))
        if flat:
            make("Reshape", [x, "flat_shape"], [f"{at}.x"])
            make("Shape", [x], [f"{at}.shape"])
            x, y = f"{at}.x", f"{at}.y"
        make("MatMul", [x, f"{at}.router"], [f"{at}.logits"])
        logits = f"{at}.logits"
        if not flat:
            make("Reshape", [logits, "router_shape"], [f"{at}.rows"])
            logits = f"{at}.rows"
        w1, s1, z1 = stack(inits, f"{at}.gate_up", (count, 2 * width, hidden), bits, block, zeros, rng)
        w2, s2, z2 = stack(inits, f"{at}.down", (count, hidden, width), bits, block, zeros, rng)
        shared = dict(domain="com.microsoft", k=2, activation_type="swiglu", swiglu_fusion=1) | attributes
        if bits:
            blocks = dict(block_size=block) if block else {}
            make("QMoE", [x, logits, w1, s1, "", w2, s2, "", "", "", "", z1, z2], [y], expert_weight_bits=bits,
                 **shared, **blocks)
        else:
            make("MoE", [x, logits, w1, "", w2], [y], **shared)
        if flat:
            make("Reshape", [y, f"{at}.shape"], [node.output[0]])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {i for n in nodes for i in n.input}
    for t in [t for t in inits if t.name not in used]:
        inits.remove(t)
    del model.graph.value_info[:]
    os.remove(f"{out}/model.onnx.data")
    onnx.save(model, f"{out}/model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=256)


def dynamic(out, name):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    exported(out, name, 17, False, "eager")
    quantize_dynamic(f"{out}/model.onnx", f"{out}/q.onnx", weight_type=QuantType.QInt8, per_channel=True)
    os.replace(f"{out}/q.onnx", f"{out}/model.onnx")


def in_blocks(out, name, export, bits=4, symmetric=True, half=False):
    """An exported graph as onnx-community quantizes it: q4, q8, and with half q4f16."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    exported(out, name, *export)
    model = onnx.load(f"{out}/model.onnx")
    quantizer = MatMulNBitsQuantizer(model, bits=bits, block_size=16, is_symmetric=symmetric, accuracy_level=4)
    quantizer.process()
    model = quantizer.model.model
    onnx.save(as_half(model) if half else model, f"{out}/model.onnx")


def as_half(model):
    from onnxruntime.transformers.float16 import convert_float_to_float16
    return convert_float_to_float16(model, keep_io_types=["logits"], disable_shape_infer=True)


class Tokens:
    """What quantize_static looks at."""
    def __init__(self, path):
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.feeds = iter([feed_of(session, np.random.default_rng(4).integers(0, 60, (1, 12)))])

    def get_next(self):
        return next(self.feeds, None)


def static(out, name, *export):
    """Activations and weights behind QuantizeLinear and DequantizeLinear."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    exported(out, name, *export)
    quantize_static(f"{out}/model.onnx", f"{out}/q.onnx", Tokens(f"{out}/model.onnx"), quant_format=QuantFormat.QDQ,
                    op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
    os.replace(f"{out}/q.onnx", f"{out}/model.onnx")


def without_rounding(model):
    """Activations as they are: what QuantizeLinear and the DequantizeLinear behind it leave out."""
    made = {n.output[0]: n for n in model.graph.node if n.op_type == "QuantizeLinear"}
    plain = {n.output[0]: made[n.input[0]].input[0] for n in model.graph.node
             if n.op_type == "DequantizeLinear" and n.input[0] in made}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] in plain:
            node.CopyFrom(onnx.helper.make_node("Identity", [plain[node.output[0]]], node.output))
    return model


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


def feed_of(session, ids):
    count, feed = ids.shape[1], {}
    types = {"tensor(int64)": np.int64, "tensor(float)": np.float32, "tensor(float16)": np.float16}
    for i in session.get_inputs():
        if i.name == "input_ids":
            feed[i.name] = ids
        elif i.name == "attention_mask":
            feed[i.name] = np.ones((1, count), np.int64)
        elif i.name == "position_ids":
            feed[i.name] = np.arange(count)[None]
        else:
            feed[i.name] = np.zeros((1, i.shape[1], 0, 16), types[i.type])
    return feed


def golden(out):
    model = without_rounding(made_plain(onnx.load(f"{out}/model.onnx")))
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
    logits = session.run(["logits"], feed_of(session, ids))[0][0].astype(np.float32)
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
    "genai-gptoss-int4": lambda out: genai(out, "gptoss", "int4", int4_block_size=16, qmoe_block_size=32),
    "genai-gptoss-fp32": lambda out: genai(out, "gptoss", "fp32"),
    "moe-qwen3-flat": lambda out: experts(out, flat=True),  # shares among all experts
    "qmoe-qwen3-rows4": lambda out: experts(out, 4, 0, True, normalize_routing_weights=1),
    "qmoe-qwen3-blocks8": lambda out: experts(out, 8, 16, True, True, normalize_routing_weights=1),
    "qmoe-qwen3-blocks2": lambda out: experts(out, 2, 16, normalize_routing_weights=1),
    "torch-llama-eager": lambda out: exported(out, "llama", 17, False, "eager"),
    "torch-llama-dynamic": lambda out: dynamic(out, "llama"),
    "torch-gemma2-eager": lambda out: exported(out, "gemma2", 17, False, "eager"),
    "torch-gpt2": lambda out: exported(out, "gpt2", 17, False, "sdpa"),
    "dynamo-qwen3-18": lambda out: exported(out, "qwen3", 18, True, "sdpa"),
    "dynamo-qwen2-23": lambda out: exported(out, "qwen2", 23, True, "sdpa"),
    "genai-qwen2-int4": lambda out: genai(out, "qwen2", "int4", int4_block_size=32),
    "genai-phi3-fp16": lambda out: genai(out, "phi3", "fp16"),
    "torch-qwen2-static": lambda out: static(out, "qwen2", 17, False, "sdpa"),
    "torch-qwen3-q4": lambda out: in_blocks(out, "qwen3", (17, False, "eager"), symmetric=False),
    "dynamo-llama-q4-fp16": lambda out: in_blocks(out, "llama", (18, True, "sdpa"), half=True),
    "dynamo-phi3-23": lambda out: exported(out, "phi3", 23, True, "sdpa"),
    "dynamo-gemma3-18": lambda out: exported(out, "gemma3", 18, True, "eager"),
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
