#!/usr/bin/env python3
"""Makes the first inputs of the fuzzers: a handful of small, valid files for each, from the example and from scratch.

    make_corpus.py ANEMONE      ANEMONE is the command; it prints the example's program as MIL text and converts the demo

Writes tests/fuzz/corpus/<fuzzer>/. Needs coremltools and numpy (tools/venv.sh makes an environment with both).
"""

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import coremltools as ct
import coremltools.optimize as cto
import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "recall")


def write(fuzzer, name, data):
    folder = os.path.join(HERE, "corpus", fuzzer)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def read(*parts):
    with open(os.path.join(*parts), "rb") as f:
        return f.read()


def packages():
    """Small models of different kinds, as coremltools writes them."""

    @mb.program(input_specs=[mb.TensorSpec((2, 3))], opset_version=ct.target.iOS15)
    def plain(x):
        return mb.relu(x=mb.add(x=x, y=np.float32(0.5)), name="y")

    @mb.program(input_specs=[mb.TensorSpec((1, 16, 1, 4), dtype=types.fp16)], opset_version=ct.target.iOS18)
    def weights(x):
        w = np.arange(16 * 16, dtype=np.float16).reshape(16, 16, 1, 1) / 64
        return mb.conv(x=x, weight=w, name="y")

    @mb.program(input_specs=[mb.TensorSpec((1,), dtype=types.int32), mb.TensorSpec((4,))], opset_version=ct.target.iOS17)
    def branch(flag, x):
        chosen = mb.cond(
            pred=mb.squeeze(x=mb.greater(x=flag, y=np.int32(0))),
            _true_fn=lambda: mb.mul(x=x, y=np.float32(2)),
            _false_fn=lambda: mb.identity(x=x),
        )
        return mb.while_loop(
            _cond=lambda v: mb.less(x=mb.reduce_sum(x=v, keep_dims=False), y=np.float32(9)),
            _body=lambda v: mb.add(x=v, y=np.float32(1)),
            loop_vars=(chosen,),
        )

    targets = {"plain": ct.target.iOS15, "weights": ct.target.iOS18, "branch": ct.target.iOS17}
    for name, program in (("plain", plain), ("weights", weights), ("branch", branch)):
        yield name, ct.convert(
            program,
            convert_to="mlprogram",
            minimum_deployment_target=targets[name],
            pass_pipeline=ct.PassPipeline.EMPTY,
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
        if name == "weights":
            model = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
            config = cto.coreml.OpPalettizerConfig(mode="uniform", nbits=2, weight_threshold=1)
            yield "palette", cto.coreml.palettize_weights(model, cto.coreml.OptimizationConfig(config))


def make_models():
    write("model", "recall", read(EXAMPLE, "recall.mlpackage/Data/com.apple.CoreML/model.mlmodel"))
    write("manifest", "recall", read(EXAMPLE, "recall.mlpackage/Manifest.json"))
    write("manifest", "smallest", json.dumps({"fileFormatVersion": "1.0.0", "rootModelIdentifier": "a", "itemInfoEntries": {
        "a": {"author": "com.apple.CoreML", "description": "", "name": "m.mlmodel", "path": "com.apple.CoreML/m.mlmodel"}}}))
    write("manifest", "no_root", '{"fileFormatVersion": "1.0.0", "itemInfoEntries": {}}')
    with tempfile.TemporaryDirectory() as folder:
        for name, model in packages():
            path = os.path.join(folder, name + ".mlpackage")
            model.save(path)
            write("model", name, read(path, "Data/com.apple.CoreML/model.mlmodel"))


def make_blobs():
    def record(code, data, offset, padding=0):
        return struct.pack("<IIQQQ32x", 0xDEADBEEF, code, len(data), offset, padding) + data

    header = struct.pack("<II56x", 1, 2)
    ask = lambda dtype, elements, offset: struct.pack("<BBQ", dtype, elements, offset)
    # The first byte counts through DType, after `none` and `boolean` …; the second is the number of elements.
    write("blob", "fp16", ask(2, 16, 64) + header + record(1, bytes(range(32)), 128))
    write("blob", "int4", ask(8, 3, 64) + header + record(8, b"\x21\x03", 128, 4))
    write("blob", "past_the_end", ask(2, 16, 4096) + header + record(1, bytes(32), 128))
    write("blob", "long", ask(2, 16, 64) + header + record(1, bytes(32), 1 << 62))


def make_arrays():
    def npy(array):
        out = io.BytesIO()
        np.save(out, array)
        return out.getvalue()

    for dtype in ("<f2", "<f4", ">f8", "|b1", "<i4", "|u1"):
        write("npy", dtype.strip("<>|") + ".npy", npy(np.arange(6).reshape(2, 3).astype(dtype)))
    write("npy", "columns.npy", npy(np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))))
    write("npy", "scalar.npy", npy(np.float32(1.5)))
    for name, save in (("stored.npz", np.savez), ("deflated.npz", np.savez_compressed)):
        out = io.BytesIO()
        save(out, x=np.zeros((4, 4), np.float32), y=np.arange(3))
        write("npy", name, out.getvalue())


MIL = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-version", "3304.5.2"}})]
{
    func main<ios17>(tensor<fp16, [1, ?]> x) [FlexibleShapeInformation = tuple<tuple<tensor<string, []>, dict<tensor<string, []>, tensor<int32, [?]>>>>((("DefaultShapes", {{"x", [1, 4]}})))] {
            tensor<fp16, [2]> c = const()[name = tensor<string, []>("c"), val = tensor<fp16, [2]>([0x1p+0, 0x1.8p+1])];
            tensor<bool, []> t = const()[name = tensor<string, []>("t"), val = tensor<bool, []>(true)];
            tensor<fp16, [1, ?]> y = relu(x = x)[name = tensor<string, []>("y")];
        } -> (y);
}
"""
MIL_13 = """program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 8]> x, state<tensor<fp16, [1, 8]>> s) {
            tensor<fp16, [1, 8]> r = read_state(input = s)[name = string("r")];
            int32 axis = const()[name = string("axis"), val = int32(-1)];
            tensor<fp16, [8, 8]> w = const()[name = string("w"), val = tensor<fp16, [8, 8]>(BLOBFILE(path = string("@model_path/weights/weight.bin"), offset = uint64(64)))];
            tensor<fp16, [1, 8]> y = add(x = x, y = r)[name = string("y")];
            tensor<fp16, [1, 16]> z = concat(values = (x, y), axis = axis)[name = string("z")];
        } -> (z);
}
"""


def make_mil_text(command):
    write("mil_text", "small_1_0.mil", MIL)
    write("mil_text", "small_1_3.mil", MIL_13)
    run = subprocess.run([command, "inspect", os.path.join(EXAMPLE, "recall.mlpackage"), "--mil"], capture_output=True, check=True)
    write("mil_text", "recall.mil", run.stdout)


def make_checkpoints():
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def gguf(values, tensors, data):
        out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values)
        for name, dims, kind, offset in tensors:
            out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
        return out + bytes(-len(out) % 32) + data

    values = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("llama.rope.freq_base") + struct.pack("<If", 6, 10000.0),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("<s>") + text("a"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ2f", 9, 6, 2, 0.0, -1.0),
    ]
    write("gguf", "values.gguf", gguf(values, [], b""))
    tensors = [("a", [32, 2], 0, 0), ("b", [32, 2], 8, 256), ("c", [256], 12, 352)]
    write("gguf", "tensors.gguf", gguf(values[:1], tensors, bytes(i % 251 for i in range(512))))
    header = json.dumps({"__metadata__": {"format": "pt"}, "a": {"dtype": "F16", "shape": [2, 4], "data_offsets": [0, 16]},
                         "b": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]}}).encode()
    write("safetensors", "two.safetensors", struct.pack("<Q", len(header)) + header + bytes(24))
    write("safetensors", "none.safetensors", struct.pack("<Q", 2) + b"{}")
    write("safetensors", "config.json", '{"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "rope_theta": 1e4, "tie": true}')


TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "macro": "{%- macro show(x, depth=0) -%}{{ x | tojson(indent=2) }}{%- endmacro -%}{%- set ns = namespace(n=0) -%}"
             "{%- for m in messages if m.role != 'system' -%}{%- set ns.n = ns.n + loop.index0 -%}{{ show(m) }}{%- else -%}none{%- endfor -%}",
    "strings": "{{ bos_token }}{{ messages[0]['content'] | trim | upper }}{{ 'a,b'.split(',')[1:] | join('-') }}{{ '%5.2f' | format(3.14159) }}"
               "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{% raw %}{{ x }}{% endraw %}",
    "errors": "{% if messages[0].role == 'user' %}{{ raise_exception('no') }}{% endif %}{{ (1 + 2) // 0 }}",
}


BUNDLES = {
    "states": "--tokens 1,4",
    "tiers": "--context 8,16 --kv packed --kv-write slice --layers 0-1",
    "io": "--kv io --whole --argmax-output --head-rows 1000 --layers 0-1",
    "parts": "--embedding head --head-rows 1000 --layers 1-1",
}


def make_bundles(anemone):
    model = os.path.join(HERE, "..", "..", "examples", "demo_model", "demo.gguf")
    with tempfile.TemporaryDirectory() as temporary:
        for name, flags in BUNDLES.items():
            folder = os.path.join(temporary, name)
            context = [] if "--context" in flags else ["--context", "16"]
            subprocess.run([anemone, "convert", model, "-o", folder, "--quiet", *context, *flags.split()], check=True)
            write("bundle", name + ".json", read(folder, "bundle.json"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    shutil.rmtree(os.path.join(HERE, "corpus"), ignore_errors=True)
    make_models()
    make_blobs()
    make_arrays()
    make_mil_text(sys.argv[1])
    make_checkpoints()
    make_bundles(sys.argv[1])
    for name, template in TEMPLATES.items():
        write("jinja", name + ".jinja", template)


if __name__ == "__main__":
    main()
