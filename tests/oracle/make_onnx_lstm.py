#!/usr/bin/env python3
"""An LSTM whose activations take parameters, and what onnxruntime computes.

    make_onnx_lstm.py tests/data/onnx

Writes lstm_activations.onnx and lstm_activations.npz: the input "x", and as "want" what onnxruntime gives for it. Only
two of its three activations take an alpha, and one a beta. Needs onnx, onnxruntime and numpy.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(1)
HIDDEN, WIDTH, STEPS = 3, 2, 4


def weight(name, *shape):
    return numpy_helper.from_array((RNG.normal(size=shape) * 0.7).astype(np.float32), name)


def main(folder):
    node = helper.make_node("LSTM", ["x", "W", "R", "B"], ["y"], hidden_size=HIDDEN,
                            activations=["Sigmoid", "HardSigmoid", "LeakyRelu"], activation_alpha=[0.3, 0.05],
                            activation_beta=[0.4])
    weights = [weight("W", 1, 4 * HIDDEN, WIDTH), weight("R", 1, 4 * HIDDEN, HIDDEN), weight("B", 1, 8 * HIDDEN)]
    graph = helper.make_graph([node], "lstm", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, 1, WIDTH])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [STEPS, 1, 1, HIDDEN])], weights)
    path = os.path.join(folder, "lstm_activations.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    x = RNG.normal(size=(STEPS, 1, WIDTH)).astype(np.float32)
    want = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    np.savez(os.path.join(folder, "lstm_activations.npz"), x=x, want=want)


main(sys.argv[1])
