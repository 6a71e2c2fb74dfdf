"""Reads a checkpoint with numpy alone.

config, weights = read_checkpoint(Path("checkpoint"))     # weights: name → float32 array
"""

import json
import struct
from pathlib import Path

import numpy as np

TYPES = {"F16": np.float16, "F32": np.float32, "BF16": np.uint16}


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors. Layout: u64 length of a JSON header, the header, the data."""
    data = path.read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", data)
    if header_bytes > len(data) - 8:
        raise ValueError(f"{path}: a header of {header_bytes} bytes in a file of {len(data)}; is it complete?")
    header = json.loads(data[8 : 8 + header_bytes])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        if end > len(data):
            raise ValueError(f"{path}: tensor {name} ends at byte {end}, the file has {len(data)}; is it complete?")
        if entry["dtype"] not in TYPES:
            raise ValueError(f"{path}: tensor {name} has type {entry['dtype']}, expected one of {', '.join(TYPES)}")
        tensor = np.frombuffer(data[start:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            tensor = (tensor.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = tensor
    return tensors


def read_checkpoint(folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stored = read_safetensors(folder / "model.safetensors")
    return config, {name: tensor.astype(np.float32) for name, tensor in stored.items()}


def expected_shapes(config: dict) -> dict[str, tuple[int, ...]]:
    """The tensors that a checkpoint of this configuration has, and their shapes."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads, experts = (
        config[key] for key in ("num_attention_heads", "num_key_value_heads", "num_local_experts")
    )
    query, key = heads * config["head_dim"], kv_heads * config["head_dim"]
    labels = len(config["id2label"])
    shapes = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "score.weight": (labels, hidden),
        "score.bias": (labels,),
    }
    layer = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (query, hidden),
        "self_attn.q_proj.bias": (query,),
        "self_attn.k_proj.weight": (key, hidden),
        "self_attn.k_proj.bias": (key,),
        "self_attn.v_proj.weight": (key, hidden),
        "self_attn.v_proj.bias": (key,),
        "self_attn.o_proj.weight": (hidden, query),
        "self_attn.o_proj.bias": (hidden,),
        "self_attn.sinks": (heads,),
        "mlp.router.weight": (experts, hidden),
        "mlp.router.bias": (experts,),
        "mlp.experts.gate_up_proj": (experts, hidden, 2 * inner),
        "mlp.experts.gate_up_proj_bias": (experts, 2 * inner),
        "mlp.experts.down_proj": (experts, inner, hidden),
        "mlp.experts.down_proj_bias": (experts, hidden),
    }
    for i in range(config["num_hidden_layers"]):
        shapes.update({f"model.layers.{i}.{name}": shape for name, shape in layer.items()})
    return shapes


def as_int8(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values that int8 weights have: one scale for each output channel; vectors stay as they are."""
    result = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            result[name] = weight
            continue
        inputs = 1 if weight.ndim == 3 else -1  # experts are stored [expert, in, out], other matrices [out, in]
        scale = np.maximum(np.abs(weight).max(axis=inputs, keepdims=True), 1e-8) / 127
        result[name] = np.clip(np.round(weight / scale), -127, 127) * scale
    return result
