#!/usr/bin/env python3
"""Writes an int4 ONNX bundle of a given shape with random weights, in the form of ONNX Runtime GenAI's builder.

    make_onnx.py SHAPE OUT_FOLDER [--context 4096]        SHAPE as in shapes.py, those of Llama and Qwen

model.onnx, model.onnx.data, genai_config.json. MatMulNBits with blocks of 32, the head's codes shared with the
embedding, GroupQueryAttention with tables of the rotation. Needs numpy and onnx.
"""
import argparse
import json
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

from shapes import SHAPES

STD, BLOCK = 0.02, 32


class Bundle:
    def __init__(self, folder):
        self.data = open(os.path.join(folder, "model.onnx.data"), "wb")
        self.rng = np.random.default_rng(1)
        self.nodes, self.inits = [], []

    def stored(self, name, array):
        """An initializer whose data lies outside, where memory pages begin."""
        self.data.write(bytes(-self.data.tell() % 4096))
        kind = {"uint8": T.UINT8, "float32": T.FLOAT}[str(array.dtype)]
        t = onnx.TensorProto(name=name, data_type=kind, dims=array.shape, data_location=T.EXTERNAL)
        for key, value in (("location", "model.onnx.data"), ("offset", self.data.tell()), ("length", array.nbytes)):
            t.external_data.add(key=key, value=str(value))
        self.data.write(array.tobytes())
        self.inits.append(t)
        return name

    def inline(self, name, array):
        self.inits.append(onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, output, more=(), domain="", **attributes):
        self.nodes.append(h.make_node(op, inputs, [output, *more], output + "/" + op, domain=domain, **attributes))
        return output

    def codes(self, name, rows, columns):
        blocks = columns // BLOCK
        codes = self.rng.integers(0, 256, (rows, blocks, BLOCK // 2), np.uint8)
        scales = (STD / 4.6 * self.rng.uniform(0.9, 1.1, (rows, blocks))).astype(np.float32)
        return self.stored(name + "_Q4", codes), self.stored(name + "_scales", scales)

    def linear(self, x, name, rows, columns, bias=False):
        b, s = self.codes(name + ".weight", rows, columns)
        y = self.node("MatMulNBits", [x, b, s], name + ".out", domain="com.microsoft", K=columns, N=rows, bits=4,
                      block_size=BLOCK, accuracy_level=4)
        if not bias:
            return y
        vector = self.stored(name + ".bias", (STD * self.rng.standard_normal(rows)).astype(np.float32))
        return self.node("Add", [y, vector], name + ".sum")

    def gain(self, name, size):
        return self.stored(name, self.rng.uniform(0.9, 1.1, size).astype(np.float32))


def lengths(b):
    b.inline("one", np.array([1], np.int64))
    b.inline("second", np.array(1, np.int64))
    total = b.node("ReduceSum", ["attention_mask", "one"], "lengths", keepdims=0)
    b.node("Cast", [b.node("Sub", [total, "one"], "lengths_before")], "seqlens_k", to=T.INT32)
    size = b.node("Gather", [b.node("Shape", ["attention_mask"], "mask_shape"), "second"], "mask_length", axis=0)
    b.node("Cast", [size], "total_length", to=T.INT32)


def layer(b, s, i, normed, stream):
    at, q, kv = f"model.layers.{i}", s.heads * s.head_dim, s.kv_heads * s.head_dim
    skip = dict(domain="com.microsoft", epsilon=s.eps)
    qkv = b.linear(normed, f"{at}.attn.qkv_proj", q + 2 * kv, s.hidden, s.qkv_bias)
    heads = b.node("GroupQueryAttention", [qkv, "", "", f"past_key_values.{i}.key", f"past_key_values.{i}.value",
                                           "seqlens_k", "total_length", "cos_cache", "sin_cache"], f"{at}.attn.heads",
                   [f"present.{i}.key", f"present.{i}.value"], "com.microsoft", num_heads=s.heads,
                   kv_num_heads=s.kv_heads, do_rotary=1, local_window_size=-1)
    o = b.linear(heads, f"{at}.attn.o_proj", s.hidden, q)
    x, h1 = f"{at}.mlp_norm.out", f"{at}.mlp_norm.sum"
    b.node("SkipSimplifiedLayerNormalization", [stream, o, b.gain(f"{at}.mlp_norm", s.hidden)], x, ["", "", h1], **skip)
    gate = b.linear(x, f"{at}.mlp.gate_proj", s.ffn, s.hidden)
    up = b.linear(x, f"{at}.mlp.up_proj", s.ffn, s.hidden)
    silu = b.node("Mul", [gate, b.node("Sigmoid", [gate], f"{at}.sigmoid")], f"{at}.silu")
    down = b.linear(b.node("Mul", [silu, up], f"{at}.mlp.inner"), f"{at}.mlp.down_proj", s.hidden, s.ffn)
    y, h2 = f"{at}.next_norm.out", f"{at}.next_norm.sum"
    b.node("SkipSimplifiedLayerNormalization", [h1, down, b.gain(f"{at}.next_norm", s.hidden)], y, ["", "", h2], **skip)
    return y, h2


def write(s, folder, context):
    os.makedirs(folder, exist_ok=True)
    b = Bundle(folder)
    lengths(b)
    angles = np.outer(np.arange(context), s.rope_base ** (-np.arange(0, s.head_dim, 2) / s.head_dim))
    b.stored("cos_cache", np.cos(angles).astype(np.float32))
    b.stored("sin_cache", np.sin(angles).astype(np.float32))
    head, scales = b.codes("lm_head.weight", s.vocab, s.hidden)
    b.inline("table_shape", np.array([s.vocab, s.hidden // 2], np.int64))
    stream = b.node("GatherBlockQuantized", [b.node("Reshape", [head, "table_shape"], "table"), "input_ids", scales],
                    "embedded", domain="com.microsoft", bits=4, block_size=BLOCK, gather_axis=0, quantize_axis=1)
    normed = b.node("SimplifiedLayerNormalization", [stream, b.gain("model.first_norm", s.hidden)], "first_norm.out",
                    axis=-1, epsilon=s.eps, stash_type=1)
    for i in range(s.layers):
        normed, stream = layer(b, s, i, normed, stream)
    b.node("MatMulNBits", [normed, head, scales], "logits", domain="com.microsoft", K=s.hidden, N=s.vocab, bits=4,
           block_size=BLOCK, accuracy_level=4)
    cache = lambda name, length: [h.make_tensor_value_info(f"{name}.{i}.{k}", T.FLOAT,
                                                           ["batch", s.kv_heads, length, s.head_dim])
                                  for i in range(s.layers) for k in ("key", "value")]
    inputs = [h.make_tensor_value_info("input_ids", T.INT64, ["batch", "tokens"]),
              h.make_tensor_value_info("attention_mask", T.INT64, ["batch", "total"])] + cache("past_key_values", "past")
    outputs = [h.make_tensor_value_info("logits", T.FLOAT, ["batch", "tokens", s.vocab])] + cache("present", "total")
    graph = h.make_graph(b.nodes, s.name, inputs, outputs, b.inits)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)],
                           ir_version=10), os.path.join(folder, "model.onnx"))
    decoder = {"filename": "model.onnx", "head_size": s.head_dim, "hidden_size": s.hidden,
               "num_attention_heads": s.heads, "num_hidden_layers": s.layers, "num_key_value_heads": s.kv_heads}
    with open(os.path.join(folder, "genai_config.json"), "w") as f:
        json.dump({"model": {"bos_token_id": 1, "eos_token_id": 2, "context_length": context, "decoder": decoder,
                             "type": s.arch, "vocab_size": s.vocab}}, f, indent=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=[n for n, s in SHAPES.items() if not s.fused])
    parser.add_argument("folder")
    parser.add_argument("--context", type=int, default=4096, help="rows of the tables of the rotation")
    o = parser.parse_args()
    write(SHAPES[o.shape], o.folder, o.context)
