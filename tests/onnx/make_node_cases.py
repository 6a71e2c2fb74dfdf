#!/usr/bin/env python3
"""Writes ONNX's own node tests (PyPI onnx 1.23) as folders: model.onnx and data.onnx, for onnx_node_tests.

    make_node_cases.py FOLDER

data.onnx holds inputs and outputs as initializers "in:NAME" and "out:NAME". Needs onnx and numpy.
"""

import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases


def tensor(prefix, value, info):
    if isinstance(value, onnx.TensorProto):
        out = onnx.TensorProto()
        out.CopyFrom(value)
    else:
        out = numpy_helper.from_array(np.asarray(value), info.name)
    out.name = prefix + info.name
    return out


def main(folder):
    for case in collect_testcases(None):
        path = os.path.join(folder, case.name)
        os.makedirs(path, exist_ok=True)
        onnx.save(case.model, os.path.join(path, "model.onnx"))
        graph = case.model.graph
        inputs, outputs = case.data_sets[0]
        tensors = []
        for prefix, values, infos in (("in:", inputs, graph.input), ("out:", outputs, graph.output)):
            for value, info in zip(values, infos):
                if not isinstance(value, (list, dict)) and value is not None:
                    tensors.append(tensor(prefix, value, info))
        data = helper.make_graph([], "data", [], [], tensors)
        onnx.save(helper.make_model(data, opset_imports=[helper.make_opsetid("", 18)]), os.path.join(path, "data.onnx"))


main(sys.argv[1])
