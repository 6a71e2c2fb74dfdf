#!/usr/bin/env python3
"""Small networks with random weights as onnxruntime's quantize_dynamic writes them, and what onnxruntime computes.

    make_onnx_quantized.py tests/data/onnx/quantized

Writes NAME.onnx and NAME.npz: the input "x", and as "want" what onnxruntime gives for it. Sums of products of codes
reach millions there, far beyond fp16. Needs onnx, onnxruntime and numpy.
"""
import argparse
import os
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

RNG = np.random.default_rng(5)


def weight(name, *shape, size=1.0, mean=0.0):
    return numpy_helper.from_array((RNG.standard_normal(shape) * size + mean).astype(np.float32), name)


def mlp(mean):
    """384 numbers in, as an encoder has them: MatMulInteger."""
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Add", ["a", "b1"], ["b"]),
             helper.make_node("Relu", ["b"], ["c"]), helper.make_node("MatMul", ["c", "w2"], ["d"]),
             helper.make_node("Add", ["d", "b2"], ["y"])]
    weights = [weight("w1", 384, 48, size=0.05, mean=mean), weight("b1", 48, size=0.1), weight("w2", 48, 8, size=0.1),
               weight("b2", 8, size=0.1)]
    return nodes, weights, (3, 384), (3, 8)


def conv():
    """A kernel of 5 x 5 over 16 channels: ConvInteger."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[5, 5]), helper.make_node("Relu", ["a"], ["y"])]
    return nodes, [weight("w", 6, 16, 5, 5, size=0.05)], (1, 16, 9, 9), (1, 6, 5, 5)


def write(folder, name, made, kind, mean=0.0):
    nodes, weights, shape, out = made
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = os.path.join(folder, name + ".onnx")
    with tempfile.TemporaryDirectory() as temporary:
        plain = os.path.join(temporary, "plain.onnx")
        onnx.save(model, plain)
        quantize_dynamic(plain, path, weight_type=kind)
    model = onnx.load(path)
    model.graph.ClearField("value_info")
    onnx.save(model, path)
    x = (RNG.standard_normal(shape) + mean).astype(np.float16).astype(np.float32)
    want = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    np.savez(os.path.join(folder, name + ".npz"), x=x, want=want)
    print(name, [node.op_type for node in model.graph.node], np.abs(want).max())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    os.makedirs(folder, exist_ok=True)
    write(folder, "mlp", mlp(0.05), QuantType.QInt8, mean=2.0)
    write(folder, "mlp_uint8", mlp(0.0), QuantType.QUInt8)
    write(folder, "conv", conv(), QuantType.QUInt8)
