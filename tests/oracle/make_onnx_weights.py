#!/usr/bin/env python3
"""Makes tests/data/onnx/weights: ONNX models with one weight each, and the matrix that onnxruntime takes it for.

    pip install numpy onnx onnxruntime     # made with onnx 1.23, onnxruntime 1.31
    tests/oracle/make_onnx_weights.py tests/data/onnx/weights

The matrix is found by multiplying the identity (MatMulNBits at accuracy level 1, so that activations stay fp32) or by
taking every row (GatherBlockQuantized, DequantizeLinear). NAME.npy holds it as [out, in], fp32; of QMoE as [experts,
out, in], through experts whose second weights are the identity.
"""
import os
import sys
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

os.environ["ORT_QMOE_CPU_QNBIT_GEMM"] = "0"  # 8-bit blocks with fp32 activations
OUT = sys.argv[1]
rng = np.random.default_rng(5)


def tensor(name, kind, dims, raw):
    return h.make_tensor(name, kind, dims, raw, raw=True)


def save(name, nodes, inits, inputs, outputs, opset=21):
    graph = h.make_graph(nodes, name, inputs, outputs, inits)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)], ir_version=10)
    onnx.save(model, f"{OUT}/{name}.onnx")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def pack(codes, bits):
    """Codes along the last axis, the first in the lowest bits."""
    per = 8 // bits
    pad = -codes.shape[-1] % per
    codes = np.concatenate([codes, np.zeros(codes.shape[:-1] + (pad,), codes.dtype)], -1)
    codes = codes.reshape(codes.shape[:-1] + (-1, per)).astype(np.uint32)
    return sum(codes[..., i] << (bits * i) for i in range(per)).astype(np.uint8)


def nbits(name, bits, block, n, k, zero="none", half=False, groups=False):
    blocks = -(-k // block)
    codes = rng.integers(0, 2**bits, (n, blocks * block))
    scale_type = np.float16 if half else np.float32
    scales = (rng.standard_normal((n, blocks)) * 0.1).astype(scale_type)
    kind = T.FLOAT16 if half else T.FLOAT
    inits = [tensor("B", T.UINT8, [n, blocks, block * bits // 8], pack(codes.reshape(n, blocks, block), bits).tobytes()),
             nh.from_array(scales, "S")]
    inputs = ["A", "B", "S"]
    if zero == "packed":
        zp = pack(rng.integers(0, 2**bits, (n, blocks)), bits)
        inits.append(tensor("Z", T.UINT8, list(zp.shape), zp.tobytes()))
        inputs.append("Z")
    elif zero == "float":
        inits.append(nh.from_array((rng.random((n, blocks)) * 2**bits).astype(scale_type), "Z"))
        inputs.append("Z")
    if groups:
        inits.append(nh.from_array((np.arange(blocks * block) * 7 // 3 % blocks).astype(np.int32), "G"))
        inputs += [""] * (4 - len(inputs)) + ["G"]
    node = h.make_node("MatMulNBits", inputs, ["Y"], "m", domain="com.microsoft", K=k, N=n, bits=bits, block_size=block,
                       accuracy_level=1)
    session = save(name, [node], inits, [h.make_tensor_value_info("A", kind, [k, k])],
                   [h.make_tensor_value_info("Y", kind, [k, n])])
    y = session.run(None, {"A": np.eye(k, dtype=scale_type)})[0]
    np.save(f"{OUT}/{name}.npy", y.T.astype(np.float32))


def gather(name, data_type, bits, block, rows, width, axis=1, zero=False):
    signed = data_type == T.INT4
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    codes = rng.integers(low, high, (rows, width))
    packed = data_type == T.UINT8
    raw = pack((codes % 2**bits) if packed else (codes % 2**bits).reshape(-1), bits)
    count = -(-(width if axis == 1 else rows) // block)
    scales = (rng.standard_normal((rows, count) if axis == 1 else (count, width)) * 0.1).astype(np.float32)
    dims = [rows, width * bits // 8] if packed else [rows, width]
    inits = [tensor("D", data_type, dims, raw.tobytes()), nh.from_array(scales, "S")]
    inputs = ["D", "I", "S"]
    if zero:
        zp = rng.integers(low, high, scales.shape) % 2**bits
        zp_raw = pack(zp if packed else zp.reshape(-1), bits)
        inits.append(tensor("Z", data_type, list(zp_raw.shape) if packed else list(scales.shape), zp_raw.tobytes()))
        inputs.append("Z")
    node = h.make_node("GatherBlockQuantized", inputs, ["Y"], "g", domain="com.microsoft", gather_axis=0,
                       quantize_axis=axis, block_size=block, **({"bits": bits} if packed else {}))
    session = save(name, [node], inits, [h.make_tensor_value_info("I", T.INT64, [rows])],
                   [h.make_tensor_value_info("Y", T.FLOAT, [rows, width])])
    np.save(f"{OUT}/{name}.npy", session.run(None, {"I": np.arange(rows)})[0])


def dequantize(name, kind, dims, scale_dims, axis=1, block=0, zero=False):
    bits = {T.INT4: 4, T.UINT4: 4, T.INT8: 8, T.UINT8: 8}[kind]
    signed = kind in (T.INT4, T.INT8)
    low = -(2 ** (bits - 1)) if signed else 0
    codes = rng.integers(low, low + 2**bits, dims) % 2**bits
    inits = [tensor("D", kind, dims, pack(codes.reshape(-1), bits).tobytes()),
             nh.from_array((rng.standard_normal(scale_dims) * 0.1).astype(np.float32), "S")]
    inputs = ["D", "S"]
    if zero:
        zp = rng.integers(low, low + 2**bits, scale_dims) % 2**bits
        inits.append(tensor("Z", kind, scale_dims, pack(np.asarray(zp).reshape(-1), bits).tobytes()))
        inputs.append("Z")
    attributes = {"axis": axis} | ({"block_size": block} if block else {})
    nodes = [h.make_node("DequantizeLinear", inputs, ["W"], "d", **attributes), h.make_node("Add", ["W", "X"], ["Y"], "a")]
    session = save(name, nodes, inits, [h.make_tensor_value_info("X", T.FLOAT, dims)],
                   [h.make_tensor_value_info("Y", T.FLOAT, dims)])
    np.save(f"{OUT}/{name}.npy", session.run(None, {"X": np.zeros(dims, np.float32)})[0])


def experts(name, bits, block, zero):
    count, n, k = 3, 32, 64
    blocks = lambda width: width // block if block else 1
    per_row = lambda a: a if block else a[..., 0]
    codes = rng.integers(0, 2**bits, (count, n, k))
    scales = (rng.standard_normal((count, n, blocks(k))) * 0.1).astype(np.float32)
    identity = np.broadcast_to(np.eye(k, n, dtype=np.int64) + 2 ** (bits - 1), (count, k, n))
    inits = [nh.from_array(pack(codes, bits), "W"), nh.from_array(per_row(scales), "S"),
             nh.from_array(pack(identity, bits), "W2"),
             nh.from_array(per_row(np.ones((count, k, blocks(n)), np.float32)), "S2")]
    inputs = ["X", "R", "W", "S", "", "W2", "S2", "", "", "", ""]
    if zero:
        half = np.full((count, k, blocks(n)), 2 ** (bits - 1))
        inits += [nh.from_array(pack(per_row(rng.integers(0, 2**bits, (count, n, blocks(k)))), bits), "Z"),
                  nh.from_array(pack(per_row(half), bits), "Z2")]
        inputs += ["Z", "Z2"]
    node = h.make_node("QMoE", inputs, ["Y"], "q", domain="com.microsoft", k=1, activation_type="identity",
                       expert_weight_bits=bits, **({"block_size": block} if block else {}))
    session = save(name, [node], inits, [h.make_tensor_value_info("X", T.FLOAT, [k, k]),
                                         h.make_tensor_value_info("R", T.FLOAT, [k, count])],
                   [h.make_tensor_value_info("Y", T.FLOAT, [k, k])])
    chosen = np.eye(count, dtype=np.float32)[:, None, :].repeat(k, 1)
    found = [session.run(None, {"X": np.eye(k, dtype=np.float32), "R": r})[0][:, :n].T for r in chosen]
    np.save(f"{OUT}/{name}.npy", np.stack(found))


for bits in (2, 4, 8):
    nbits(f"nbits{bits}_b32", bits, 32, 6, 64)
    nbits(f"nbits{bits}_zp", bits, 16, 5, 96, "packed")
    nbits(f"nbits{bits}_short", bits, 32, 4, 100 if bits != 2 else 52, "packed")
    if bits == 4:  # onnxruntime has no groups of 8-bit codes, and reads 2-bit ones as 4-bit ones
        nbits(f"nbits{bits}_groups", bits, 16, 4, 48, groups=True)
nbits("nbits4_fzp", 4, 32, 4, 64, "float")
nbits("nbits2_fzp", 2, 32, 4, 64, "float")
nbits("nbits4_half", 4, 32, 4, 64, half=True)
nbits("nbits4_half_zp", 4, 32, 4, 64, "packed", half=True)
nbits("nbits4_b128", 4, 128, 3, 256)
nbits("nbits4_odd", 4, 16, 3, 37)
gather("gather4", T.UINT8, 4, 16, 9, 32)
gather("gather4_zp", T.UINT8, 4, 16, 9, 48, zero=True)
gather("gather8", T.UINT8, 8, 16, 7, 32)
gather("gather_int4", T.INT4, 4, 16, 6, 32)
gather("gather_int4_zp", T.INT4, 4, 16, 6, 32, zero=True)
gather("gather_uint4", T.UINT4, 4, 16, 6, 32)
gather("gather_int4_rows", T.INT4, 4, 16, 32, 6, axis=0)
dequantize("dq_int8", T.INT8, [6, 10], [])
dequantize("dq_uint8_zp", T.UINT8, [6, 10], [], zero=True)
dequantize("dq_int8_axis0", T.INT8, [6, 10], [6], axis=0)
dequantize("dq_uint8_axis1", T.UINT8, [6, 10], [10], axis=1, zero=True)
dequantize("dq_int4_block0", T.INT4, [64, 6], [4, 6], axis=0, block=16)
dequantize("dq_uint4_block1", T.UINT4, [6, 64], [6, 2], axis=1, block=32, zero=True)
for bits in (2, 4, 8):
    for block in (0, 16):
        for zero in (False, True):
            experts(f"qmoe{bits}_{'blocks' if block else 'rows'}{'_zp' if zero else ''}", bits, block, zero)

# What onnxruntime's CPU kernel does not take, or takes for something else: refused by name.
for name, attributes in {"qmoe_fp4": dict(quant_type="fp4"), "qmoe_mixed": dict(fc2_expert_weight_bits=8),
                         "qmoe_prepacked": dict(weights_prepacked=1), "qmoe_3bit": dict(expert_weight_bits=3)}.items():
    values = {"W": np.zeros((1, 4, 8), np.uint8), "S": np.ones((1, 4), np.float32),
              "W2": np.zeros((1, 16, 2), np.uint8), "S2": np.ones((1, 16), np.float32)}
    node = h.make_node("QMoE", ["X", "R", "W", "S", "", "W2", "S2"], ["Y"], "q", domain="com.microsoft", k=1,
                       **attributes)
    graph = h.make_graph([node], name, [h.make_tensor_value_info("X", T.FLOAT, [1, 16]),
                                        h.make_tensor_value_info("R", T.FLOAT, [1, 1])],
                         [h.make_tensor_value_info("Y", T.FLOAT, [1, 16])],
                         [nh.from_array(v, key) for key, v in values.items()])
    os.makedirs(f"{OUT}/refused", exist_ok=True)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)],
                           ir_version=10), f"{OUT}/refused/{name}.onnx")
