#!/usr/bin/env python3
"""Makes the small files of tests/onnx/reader_test.cpp. Needs onnx (1.23), ml_dtypes and numpy.

types.onnx: an initializer of every element type, as raw data and, where the format has one, as a list of numbers; beside
each the same values as FLOAT ("<name>.values", by ml_dtypes). functions.onnx: nested functions with attributes that
refer to the caller's, a subgraph, and an input that is passed on.
"""

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper


def types():
    rng = np.random.default_rng(1)
    tensors = []
    for code in range(1, 29):
        if code in (T.STRING, T.COMPLEX64, T.COMPLEX128):
            continue
        name = T.DataType.Name(code)
        dtype = helper.tensor_dtype_to_np_dtype(code)
        floating = name.startswith(("FLOAT", "BFLOAT", "DOUBLE"))
        if code == T.FLOAT8E8M0:
            values = np.array([2.0**e for e in (-126, -1, 0, 1, 2, 127, 5)], np.float32).astype(dtype)
        elif floating:
            values = np.concatenate([rng.normal(size=5) * 3, [0.0, -1.0]]).astype(np.float32).astype(dtype)
        elif code == T.BOOL:
            values = np.array([1, 0, 0, 1, 1, 0, 1], bool)
        else:
            low, high = (0, 3) if code == T.UINT2 else (-2, 1) if code == T.INT2 else (0, 15) if name.startswith("U") else (-8, 7)
            values = rng.integers(low, high + 1, 7).astype(np.int64).astype(dtype)
        as_float = numpy_helper.from_array(values.astype(np.float32), name + ".values")
        raw = numpy_helper.from_array(values, name + ".raw")
        listed = helper.make_tensor(name + ".list", code, [7], values.astype(np.float64) if floating else values.astype(np.int64))
        tensors += [as_float, raw, listed]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "types",
        [helper.make_tensor_value_info("x", T.FLOAT, ["batch", 3, None])],
        [helper.make_tensor_value_info("y", T.FLOAT, ["batch", 3, None])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], producer_name="anemone tests")
    helper.set_model_props(model, {"key": "value"})
    onnx.save(model, "types.onnx")


def functions():
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    scale = helper.make_node("LeakyRelu", ["x"], ["y"], name="leaky")
    reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    scale.attribute.append(reference)
    inner = helper.make_function("local", "Inner", ["x"], ["y"], [scale], opsets, attributes=["slope"])
    branch = helper.make_graph([helper.make_node("Neg", ["t"], ["n"])], "b", [], [helper.make_tensor_value_info("n", T.FLOAT, ["n"])])
    other = helper.make_graph([helper.make_node("Abs", ["t"], ["a"])], "c", [], [helper.make_tensor_value_info("a", T.FLOAT, ["n"])])
    call = helper.make_node("Inner", ["p"], ["t"], domain="local")
    call.attribute.append(onnx.AttributeProto(name="slope", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    outer = helper.make_function(
        "local", "Outer", ["p", "c"], ["r", "p"],
        [call, helper.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=other)],
        opsets, attribute_protos=[helper.make_attribute("slope", 0.25)])
    value = lambda n, t=T.FLOAT: helper.make_tensor_value_info(n, t, ["n"] if t == T.FLOAT else [])
    graph = helper.make_graph(
        [helper.make_node("Outer", ["x", "flag"], ["u", "same"], domain="local", name="first"),
         helper.make_node("Outer", ["u", "flag"], ["v"], domain="local", name="second", slope=0.5)],
        "main", [value("x"), value("flag", T.BOOL)], [value("v"), value("same")])
    model = helper.make_model(graph, opset_imports=opsets, functions=[outer, inner])
    onnx.checker.check_model(model)
    onnx.save(model, "functions.onnx")


types()
functions()
