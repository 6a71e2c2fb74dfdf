#!/usr/bin/env python3
"""What the conversion of a large mixture of experts costs: ZAYA1-8B's sizes, weights made on the fly.

    convert_zaya.py [--experts host] [--layers 40] [--anemone build/release/anemone] [--work FOLDER] [--flags ...]

Makes safetensors of these sizes in BF16. The head of every tensor is random and the rest is a hole in the file: 17.7 GB
that take no space on the disk, and are read as zeros. Converts them to an int8 bundle, prints wall and CPU seconds, the
highest resident memory (mapped pages included) and the bytes written, and deletes both. Needs 10 GB on the disk.
"""
import argparse
import json
import os
import random
import resource
import shutil
import struct
import tempfile

from convert import HERE, measure, tree_bytes

HIDDEN, HEADS, KV_HEADS, HEAD, EXPERTS, WIDTH, ROUTER, VOCAB = 2048, 8, 2, 128, 16, 2048, 256, 262272
RANDOM_BYTES = 1 << 16


def layer_tensors(i):
    q, k = HEADS * HEAD, KV_HEADS * HEAD
    attention = {
        "input_layernorm.weight": [HIDDEN],
        "self_attn.qkv_proj.q_proj.weight": [q, HIDDEN],
        "self_attn.qkv_proj.k_proj.weight": [k, HIDDEN],
        "self_attn.qkv_proj.v_proj_current.weight": [k // 2, HIDDEN],
        "self_attn.qkv_proj.v_proj_delayed.weight": [k // 2, HIDDEN],
        "self_attn.qkv_proj.conv_qk_depthwise.weight": [q + k, 1, 2],
        "self_attn.qkv_proj.conv_qk_depthwise.bias": [q + k],
        "self_attn.qkv_proj.conv_qk_grouped.weight": [q + k, HEAD, 2],
        "self_attn.qkv_proj.conv_qk_grouped.bias": [q + k],
        "self_attn.qk_norm.temp": [KV_HEADS],
        "self_attn.o_proj.weight": [HIDDEN, q],
    }
    experts = {
        "post_attention_layernorm.weight": [HIDDEN],
        "mlp.gate.down_proj.weight": [ROUTER, HIDDEN],
        "mlp.gate.down_proj.bias": [ROUTER],
        "mlp.gate.router_mlp.norm.weight": [ROUTER],
        "mlp.gate.router_mlp.fc1.weight": [ROUTER, ROUTER],
        "mlp.gate.router_mlp.fc1.bias": [ROUTER],
        "mlp.gate.router_mlp.fc2.weight": [ROUTER, ROUTER],
        "mlp.gate.router_mlp.fc2.bias": [ROUTER],
        "mlp.gate.router_mlp.out_proj.weight": [EXPERTS + 1, ROUTER],
        "mlp.gate.balancing_biases": [EXPERTS + 1],
        "mlp.experts.gate_up_proj": [EXPERTS, 2 * WIDTH, HIDDEN],
        "mlp.experts.down_proj": [EXPERTS, HIDDEN, WIDTH],
    }
    if i:
        experts["mlp.gate.router_states_scale"] = [ROUTER]
    sums = {f"{side}_residual_scale.{part}_{what}": [HIDDEN]
            for side in ("post_attention", "post_mlp") for part in ("hidden_states", "residual")
            for what in ("scale", "bias")}
    return {f"model.layers.{i}.{name}": shape for name, shape in (attention | experts | sums).items()}


def write_file(path, tensors, numbers):
    header, at, starts = {}, 0, []
    for name, shape in tensors.items():
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        starts.append((at, size))
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        begin = f.tell()
        for start, size in starts:
            f.seek(begin + start)
            f.write(numbers[:min(size, RANDOM_BYTES)])
        f.truncate(begin + at)
    return at


def make_model(folder, layers):
    os.makedirs(folder)
    rng = random.Random(1)
    # BF16 between 2^-9 and 2^-5, either sign.
    numbers = b"".join(struct.pack("<H", rng.getrandbits(1) << 15 | (118 + rng.randrange(4)) << 7 | rng.getrandbits(7))
                       for _ in range(RANDOM_BYTES // 2))
    config = {"architectures": ["ZayaForCausalLM"], "model_type": "zaya", "hidden_size": HIDDEN,
              "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
              "head_dim": HEAD, "num_experts": EXPERTS, "num_experts_per_tok": 1, "moe_intermediate_size": WIDTH,
              "router_hidden_size": ROUTER, "cca_time0": 2, "cca_time1": 2, "vocab_size": VOCAB, "rms_norm_eps": 1e-5,
              "max_position_embeddings": 131072, "tie_word_embeddings": True, "hidden_act": "silu",
              "layer_types": ["hybrid"] * layers,
              "rope_parameters": {"hybrid": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}}}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    ends = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN],
            "model.input_hidden_states_scale": [HIDDEN], "model.input_hidden_states_bias": [HIDDEN]}
    parts = [ends] + [layer_tensors(i) for i in range(layers)]
    index, total = {}, 0
    for i, tensors in enumerate(parts):
        name = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        total += write_file(os.path.join(folder, name), tensors, numbers)
        index |= {tensor: name for tensor in tensors}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": index}, f)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", default="host", choices=["auto", "all", "host", "groups"])
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--anemone", default=os.path.join(HERE, "..", "build", "release", "anemone"))
    parser.add_argument("--work", help="folder for the files; a temporary one otherwise")
    parser.add_argument("--flags", nargs="*", default=[], help="more flags of convert")
    o = parser.parse_args()
    work = o.work or tempfile.mkdtemp(prefix="anemone_bench_")
    source, bundle = os.path.join(work, "zaya"), os.path.join(work, "bundle")
    try:
        total = make_model(source, o.layers)
        print(f"ZAYA1 with {o.layers} layers: {total / 2e9:.2f} B weights, {total / 1e9:.1f} GB of BF16; load "
              f"{os.getloadavg()[0]:.1f}", flush=True)
        seconds, memory = measure([o.anemone, "convert", source, "-o", bundle, "--experts", o.experts, "--tokens", "1",
                                   "--residual-scale", "1", "--quiet", *o.flags])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        packages = sum(name.endswith(".mlpackage") for name in os.listdir(bundle))
        print(f"{o.experts}: {seconds:.1f} s  {used.ru_utime + used.ru_stime:.0f} CPU s  {memory:.0f} MiB  "
              f"{tree_bytes(bundle) / 1e9:.2f} GB in {packages} packages", flush=True)
    finally:
        for path in (bundle, source):
            shutil.rmtree(path, ignore_errors=True)
        if not o.work:
            os.rmdir(work)


if __name__ == "__main__":
    main()
