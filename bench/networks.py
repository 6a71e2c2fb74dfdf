#!/usr/bin/env python3
"""Networks that are no decoders, beside onnxruntime in one run: a MobileNet-like, a ResNet-like and a BERT-like network
with the same random weights and MiniLM with its own, once as a Core ML package (coremltools' MIL builder) and once as
an ONNX file; and Basic Pitch, which others have converted to both. Both run turn by turn on the same number of threads.
Prints the best times, the median of the rounds' ratios and how far the results are apart.

    networks.py [--anemone build/release/anemone] [--threads 2] [--rounds 5] [--folder build/networks] [NAME...]
    networks.py --wheels FOLDER [PART...]

Needs coremltools, onnx and onnxruntime. NAME: mobilenet, resnet, bert, minilm (the checkpoint in --minilm; needs
safetensors) or pitch (in the folder mlpackages of $ANEMONE_DATA); by default all that are there.

--wheels takes the networks of tests/onnx/networks.py instead, as `convert --precision fp32` makes them; that file says
what FOLDER holds. PART: only paths with it.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np


class Pair:
    """Builds one network twice: MIL operations and ONNX nodes."""

    def __init__(self, inputs, ids=0):
        self.random = np.random.default_rng(7)
        self.nodes, self.initializers, self.counter = [], [], 0
        self.inputs, self.ids = inputs, ids  # ids: the input has integers below this

    def name(self, what):
        self.counter += 1
        return f"{what}_{self.counter}"

    def weight(self, *shape):
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        scale = (2.0 / fan) ** 0.5 if len(shape) > 1 else 0.05
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def onnx_constant(self, value):
        from onnx import numpy_helper

        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def onnx_node(self, op, inputs, **attributes):
        from onnx import helper

        name = self.name(op.lower())
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    # Each takes and gives a pair (MIL value, ONNX name).
    def conv(self, x, channels, out, kernel=1, stride=1, groups=1):
        w, b = self.weight(out, channels // groups, kernel, kernel), self.weight(out)
        pad = kernel // 2
        mil = self.mb.conv(x=x[0], weight=w, bias=b, strides=[stride] * 2, pad_type="custom", pad=[pad] * 4, groups=groups)
        onnx = self.onnx_node("Conv", [x[1], self.onnx_constant(w), self.onnx_constant(b)], strides=[stride] * 2,
                              pads=[pad] * 4, group=groups, kernel_shape=[kernel] * 2)
        return mil, onnx

    def relu(self, x):
        return self.mb.relu(x=x[0]), self.onnx_node("Relu", [x[1]])

    def relu6(self, x):
        low, high = self.onnx_constant(np.float32(0)), self.onnx_constant(np.float32(6))
        return self.mb.relu6(x=x[0]), self.onnx_node("Clip", [x[1], low, high])

    def add(self, x, y):
        return self.mb.add(x=x[0], y=y[0]), self.onnx_node("Add", [x[1], y[1]])

    def max_pool(self, x):
        mil = self.mb.max_pool(x=x[0], kernel_sizes=[3, 3], strides=[2, 2], pad_type="custom", pad=[1] * 4)
        return mil, self.onnx_node("MaxPool", [x[1]], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def mean(self, x):
        return self.mb.reduce_mean(x=x[0], axes=[2, 3], keep_dims=False), self.onnx_node(
            "Flatten", [self.onnx_node("GlobalAveragePool", [x[1]])])

    def embedding(self, x, table):
        mil = self.mb.gather(x=table, indices=x[0], axis=0)
        return mil, self.onnx_node("Gather", [self.onnx_constant(table), x[1]], axis=0)

    def constant(self, value):
        return value, self.onnx_constant(value)

    def linear(self, x, k, n, weights=None):
        w, b = weights or (self.weight(n, k), self.weight(n))
        product = self.onnx_node("MatMul", [x[1], self.onnx_constant(np.ascontiguousarray(w.T))])
        return self.mb.linear(x=x[0], weight=w, bias=b), self.onnx_node("Add", [product, self.onnx_constant(b)])

    def gelu(self, x):
        half, one = self.onnx_constant(np.float32(0.5)), self.onnx_constant(np.float32(1))
        root = self.onnx_constant(np.float32(2**0.5))
        erf = self.onnx_node("Erf", [self.onnx_node("Div", [x[1], root])])
        both = self.onnx_node("Mul", [x[1], self.onnx_node("Add", [erf, one])])
        return self.mb.gelu(x=x[0], mode="EXACT"), self.onnx_node("Mul", [both, half])

    def layer_norm(self, x, n, weights=None, epsilon=1e-5):
        gamma, beta = weights or (1 + self.weight(n), self.weight(n))
        mil = self.mb.layer_norm(x=x[0], axes=[-1], gamma=gamma, beta=beta, epsilon=np.float32(epsilon))
        onnx = self.onnx_node("LayerNormalization", [x[1], self.onnx_constant(gamma), self.onnx_constant(beta)],
                              axis=-1, epsilon=epsilon)
        return mil, onnx

    def heads(self, x, tokens, heads, dim):
        shape = [1, tokens, heads, dim]
        mil = self.mb.transpose(x=self.mb.reshape(x=x[0], shape=shape), perm=[0, 2, 1, 3])
        shaped = self.onnx_node("Reshape", [x[1], self.onnx_constant(np.array(shape, np.int64))])
        return mil, self.onnx_node("Transpose", [shaped], perm=[0, 2, 1, 3])

    def attend(self, q, k, v, tokens, heads, dim):
        scale = np.float32(dim**-0.5)
        scores = self.mb.matmul(x=self.mb.mul(x=q[0], y=scale), y=k[0], transpose_y=True)
        mil = self.mb.matmul(x=self.mb.softmax(x=scores, axis=-1), y=v[0])
        mil = self.mb.reshape(x=self.mb.transpose(x=mil, perm=[0, 2, 1, 3]), shape=[1, tokens, heads * dim])
        scaled = self.onnx_node("Mul", [q[1], self.onnx_constant(scale)])
        onnx = self.onnx_node("MatMul", [scaled, self.onnx_node("Transpose", [k[1]], perm=[0, 1, 3, 2])])
        onnx = self.onnx_node("MatMul", [self.onnx_node("Softmax", [onnx], axis=-1), v[1]])
        onnx = self.onnx_node("Transpose", [onnx], perm=[0, 2, 1, 3])
        return mil, self.onnx_node("Reshape", [onnx, self.onnx_constant(np.array([1, tokens, heads * dim], np.int64))])

    def write(self, network, folder, name):
        import coremltools as ct
        import onnx
        from coremltools.converters.mil import Builder as mb
        from coremltools.converters.mil.mil import types as mil_types
        from onnx import TensorProto, helper

        self.mb = mb
        shape, out = self.inputs, []

        types = {"dtype": mil_types.int32} if self.ids else {}

        @mb.program(input_specs=[mb.TensorSpec(shape=shape, **types)], opset_version=ct.target.iOS17)
        def program(x):
            result = network(self, (x, "x"))
            out.append(result[1])
            return mb.identity(x=result[0], name="y")

        model = ct.convert(program, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32,
                           minimum_deployment_target=ct.target.iOS17)
        model.save(os.path.join(folder, name + ".mlpackage"))
        self.nodes.append(helper.make_node("Identity", [out[0]], ["y"]))
        dtype = TensorProto.INT32 if self.ids else TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, name, [helper.make_tensor_value_info("x", dtype, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], self.initializers)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 8
        onnx.save(made, os.path.join(folder, name + ".onnx"))
        if self.ids:
            x = self.random.integers(self.ids, size=shape, dtype=np.int32)
        else:
            x = self.random.standard_normal(shape).astype(np.float32)
        np.save(os.path.join(folder, name + ".npy"), x)


def mobilenet(p, x):
    channels = 32
    x = p.relu6(p.conv(x, 3, channels, 3, 2))
    for widen, out, times, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                      (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(times):
            inner, step = channels * widen, stride if i == 0 else 1
            y = p.relu6(p.conv(x, channels, inner)) if widen > 1 else x
            y = p.relu6(p.conv(y, inner, inner, 3, step, inner))
            y = p.conv(y, inner, out)
            x = p.add(x, y) if step == 1 and channels == out else y
            channels = out
    return p.linear(p.mean(p.relu6(p.conv(x, channels, 1280))), 1280, 1000)


def resnet(p, x):
    channels = 64
    x = p.max_pool(p.relu(p.conv(x, 3, channels, 7, 2)))
    for out, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = p.conv(p.relu(p.conv(x, channels, out, 3, stride)), out, out, 3)
        x = p.relu(p.add(y, p.conv(x, channels, out, 1, stride) if stride > 1 else x))
        channels = out
    return p.linear(p.mean(x), 512, 1000)


def bert(p, x, tokens=128, hidden=384, heads=12, layers=6):
    dim = hidden // heads
    for _ in range(layers):
        q, k, v = (p.heads(p.linear(x, hidden, hidden), tokens, heads, dim) for _ in range(3))
        y = p.linear(p.attend(q, k, v, tokens, heads, dim), hidden, hidden)
        x = p.layer_norm(p.add(x, y), hidden)
        y = p.linear(p.gelu(p.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden)
        x = p.layer_norm(p.add(x, y), hidden)
    return x


def minilm(folder):
    """all-MiniLM-L6-v2: a text of 128 tokens without padding → the last hidden states."""
    from safetensors.numpy import load_file

    weights = load_file(os.path.join(folder, "model.safetensors"))
    weights = {name.removeprefix("bert."): value.astype(np.float32) for name, value in weights.items()}

    def network(p, x, tokens=128, hidden=384, heads=12, layers=6):
        def pair(name):
            return weights[name + ".weight"], weights[name + ".bias"]

        dim, table = hidden // heads, "embeddings.{}_embeddings.weight"
        places = weights[table.format("position")][:tokens] + weights[table.format("token_type")][0]
        x = p.add(p.embedding(x, weights[table.format("word")]), p.constant(places[None]))
        x = p.layer_norm(x, hidden, pair("embeddings.LayerNorm"), 1e-12)
        for i in range(layers):
            layer = f"encoder.layer.{i}."
            q, k, v = (p.heads(p.linear(x, hidden, hidden, pair(layer + "attention.self." + part)), tokens, heads, dim)
                       for part in ("query", "key", "value"))
            y = p.attend(q, k, v, tokens, heads, dim)
            y = p.linear(y, hidden, hidden, pair(layer + "attention.output.dense"))
            x = p.layer_norm(p.add(x, y), hidden, pair(layer + "attention.output.LayerNorm"), 1e-12)
            y = p.gelu(p.linear(x, hidden, 4 * hidden, pair(layer + "intermediate.dense")))
            y = p.linear(y, 4 * hidden, hidden, pair(layer + "output.dense"))
            x = p.layer_norm(p.add(x, y), hidden, pair(layer + "output.LayerNorm"), 1e-12)
        return x

    return network


class Case:
    """A network in both forms, the inputs of each, and which of their outputs are compared."""

    def __init__(self, package, onnx, inputs, feed, outputs):
        self.package, self.onnx, self.feed, self.outputs = package, onnx, feed, outputs
        self.file = inputs  # an .npz with the package's inputs


NETWORKS = {"mobilenet": (mobilenet, (1, 3, 224, 224)), "resnet": (resnet, (1, 3, 224, 224)),
            "bert": (bert, (1, 128, 384))}
NAMES = [*NETWORKS, "minilm", "pitch"]


def find_case(name, options):
    base = os.path.join(options.folder, name)
    if name == "pitch":
        folder = os.path.join(os.environ.get("ANEMONE_DATA", ""), "mlpackages", "basic_pitch")
        if not os.path.exists(folder + "_io.npz"):
            return None
        x = np.load(folder + "_io.npz")["input_2"]
        np.savez(base + "_in.npz", input_2=x)
        return Case(folder + "_nmp.mlpackage", folder + "_nmp.onnx", base + "_in.npz",
                    {"serving_default_input_2:0": x}, {"StatefulPartitionedCall:0": "Identity"})
    if not os.path.exists(base + ".onnx"):
        if name == "minilm":
            if not os.path.exists(os.path.join(options.minilm, "model.safetensors")):
                return None
            Pair((1, 128), ids=30522).write(minilm(options.minilm), options.folder, name)
        else:
            network, shape = NETWORKS[name]
            Pair(shape).write(network, options.folder, name)
    x = np.load(base + ".npy")
    np.savez(base + "_in.npz", x=x)
    return Case(base + ".mlpackage", base + ".onnx", base + "_in.npz", {"x": x}, {"y": "y"})


def wheel_cases(options):
    """Networks as others publish them, converted by anemone."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/onnx"))
    import networks as wheels

    out = {}
    for part, data in wheels.networks():
        path = os.path.join(options.wheels, part)
        if options.names != NAMES and not any(name in part for name in options.names):
            continue
        if not os.path.exists(path):
            out[part] = None
            continue
        folder = os.path.join(options.folder, part.replace("/", "_").removesuffix(".onnx"))
        os.makedirs(folder, exist_ok=True)
        feed = wheels.feed_for(wheels.open_session(path), data)
        made = wheels.convert(options.anemone, path, feed, ["--precision", "fp32"], folder)
        if isinstance(made, str):
            sys.exit(f"{part}: {made}")
        wheels.inputs_of(options.anemone, folder, made["renamed"], feed)
        names = {made["renamed"].get(k, k): k for k in wheels.features(options.anemone, folder, "outputs")}
        out[part] = Case(folder + "/net.mlpackage", path, folder + "/in.npz", feed, names)
    return out


def run_anemone(options, name, case):
    out_file = os.path.join(options.folder, name.replace("/", "_") + "_out.npz")
    call = [options.anemone, "predict", case.package, "--inputs", case.file, "--repeat", str(options.repeat),
            "--threads", str(options.threads), "--time", "--outputs", out_file]
    out = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    got = np.load(out_file)
    return float(out.split("best ")[1].split(" ms")[0]), [got[name] for name in case.outputs.values()]


class Onnx:
    def __init__(self, case, threads):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.session = ort.InferenceSession(case.onnx, options, ["CPUExecutionProvider"])
        self.inputs, self.outputs = case.feed, list(case.outputs)

    def run(self, repeat):
        best = 1e9
        for _ in range(repeat):
            start = time.perf_counter()
            y = self.session.run(self.outputs, self.inputs)
            best = min(best, 1e3 * (time.perf_counter() - start))
        return best, y


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--anemone", default="build/release/anemone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--folder", default="build/networks")
    parser.add_argument("--minilm", default=".cache/minilm", help="all-MiniLM-L6-v2 as safetensors")
    parser.add_argument("--wheels", help="networks from PyPI in this folder")
    parser.add_argument("--make", action="store_true", help="only make the files")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    cases = wheel_cases(options) if options.wheels else {name: find_case(name, options) for name in options.names}
    width = max(map(len, cases), default=0)
    if options.make:
        return
    print(f"{options.threads} threads | best ms: anemone, onnxruntime | ratio of speeds, median | largest difference")
    for name, case in cases.items():
        if not case:
            print(f"{name:>{width}} | not there")
            continue
        peer, rounds = Onnx(case, options.threads), []
        for _ in range(options.rounds):
            ours, y = run_anemone(options, name, case)
            theirs, z = peer.run(options.repeat)
            rounds.append((ours, theirs))
        apart = max(float(np.abs(a.reshape(b.shape) - b).max()) / max(float(np.abs(b).max()), 1e-12)
                    for a, b in zip(y, z))
        ratio = statistics.median(b / a for a, b in rounds)
        print(f"{name:>{width}} | {min(r[0] for r in rounds):8.2f} {min(r[1] for r in rounds):8.2f} | {ratio:5.2f} | "
              f"{apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
