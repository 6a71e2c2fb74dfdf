#!/usr/bin/env python3
"""First inputs of the fuzzer of ONNX networks: one small model for each kind of lowering. Needs onnx and numpy.

    make_fuzz_corpus.py tests/fuzz/corpus/onnx_network
"""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(1)


def tensor(name, *shape):
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def write(folder, name, nodes, inputs, outputs, tensors=()):
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs], list(tensors))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    save(model, os.path.join(folder, name + ".onnx"))


def branch(op, name, tensors):
    return helper.make_graph([helper.make_node(op, ["x", name + "_c"], [name])], name, [],
                             [helper.make_tensor_value_info(name, FLOAT, None)], tensors)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    node = helper.make_node
    x = ("x", FLOAT, [1, 3, 4])
    write(folder, "attention", [
        node("MatMul", ["x", "w"], ["q"]), node("Add", ["q", "b"], ["k"]), node("Reshape", ["k", "heads"], ["h"]),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]), node("Transpose", ["h"], ["u"], perm=[0, 2, 3, 1]),
        node("MatMul", ["t", "u"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "t"], ["o"]),
        node("Transpose", ["o"], ["v"], perm=[0, 2, 1, 3]), node("Reshape", ["v", "flat"], ["f"]),
        node("LayerNormalization", ["f", "b"], ["n"]), node("MatMul", ["n", "w"], ["y"])], [x], ["y"],
        [tensor("w", 4, 4), tensor("b", 4), ints("heads", 1, 3, 2, 2), ints("flat", 1, 3, 4)])
    write(folder, "norm_in_parts", [
        node("ReduceMean", ["x", "last"], ["m"]), node("Sub", ["x", "m"], ["c"]), node("Mul", ["c", "c"], ["q"]),
        node("ReduceMean", ["q", "last"], ["v"]), node("Add", ["v", "e"], ["a"]), node("Sqrt", ["a"], ["r"]),
        node("Div", ["c", "r"], ["d"]), node("Mul", ["d", "g"], ["y"])], [x], ["y"],
        [ints("last", -1), tensor("g", 4), numpy_helper.from_array(np.float32(1e-5), "e")])
    write(folder, "if", [
        node("Equal", ["n", "one"], ["z"]),
        node("If", ["z"], ["y"], then_branch=branch("Add", "a", [tensor("a_c", 4)]),
             else_branch=branch("Mul", "m", [tensor("m_c", 5)]))], [x, ("n", INT, [])], ["y"],
        [numpy_helper.from_array(np.array(1, np.int64), "one")])
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["t"]), node("Identity", ["go"], ["on"]), node("Identity", ["t"], ["scan"])], "body",
        [helper.make_tensor_value_info("i", INT, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", FLOAT, None)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("t", FLOAT, None),
         helper.make_tensor_value_info("scan", FLOAT, None)])
    write(folder, "loop", [node("Loop", ["n", "", "x"], ["y", "all"], body=body)], [x], ["y", "all"],
          [numpy_helper.from_array(np.array(3, np.int64), "n")])
    write(folder, "loop_open", [node("Loop", ["n", "", "x"], ["y", "all"], body=body)], [x, ("n", INT, [])], ["y"])
    write(folder, "lstm", [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2, direction="bidirectional")], [x], ["y"],
          [tensor("w", 2, 8, 4), tensor("r", 2, 8, 2)])
    write(folder, "picture", [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "g", "g", "g", "v"], ["n"]), node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["p", "", "s"], ["u"], mode="linear"), node("Pad", ["u", "pads"], ["q"], mode="reflect"),
        node("GlobalAveragePool", ["q"], ["y"])], [("x", FLOAT, [1, 2, 6, 6])], ["y"],
        [tensor("w", 2, 2, 3, 3), tensor("g", 2), numpy_helper.from_array(np.array([1, 2], np.float32), "v"),
         numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s"), ints("pads", 0, 0, 1, 1, 0, 0, 1, 1)])
    write(folder, "shapes", [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["d"]), node("Concat", ["d", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]), node("Slice", ["r", "zero", "two"], ["c"]), node("Expand", ["c", "s"], ["y"])],
        [("x", FLOAT, [1, 3, 4])], ["y"], [ints("zero", 0), ints("two", 2), ints("rest", 3, -1)])


main(sys.argv[1])
