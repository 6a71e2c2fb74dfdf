#!/usr/bin/env python3
"""Asks coremltools whether it accepts Core ML packages.

    check_package.py model.mlpackage ...              load, rebuild every op, compare the types it infers
    check_package.py --compress model.mlpackage ...   also run its own weight compression and decompression
    check_package.py --same-as a.mlpackage b.mlpackage  also: b says all that a says (unknown fields included)

Exit status 0 when every package is fine, 1 with a line per fault otherwise. Needs coremltools from PyPI.
"""

import argparse
import os
import struct
import sys
import tempfile

import coremltools as ct
import coremltools.optimize as cto
from coremltools.converters.mil.frontend.milproto import load as milproto
from coremltools.models.utils import load_spec
from coremltools.proto import MIL_pb2
from google.protobuf import unknown_fields
from google.protobuf.message import Message


def weights_folder(path):
    return os.path.join(path, "Data", "com.apple.CoreML", "weights")


def blob_bytes(path, blob):
    """The data behind a blob reference, with its type code."""
    with open(os.path.join(weights_folder(path), os.path.basename(blob.fileName)), "rb") as f:
        f.seek(blob.offset)
        sentinel, code, size, offset = struct.unpack("<IIQQ", f.read(24))
        assert sentinel == 0xDEADBEEF, f"no record at {blob.offset}"
        f.seek(offset)
        return code, f.read(size)


CODES = {10: 1, 11: 2, 31: 3, 21: 4, 22: 6, 32: 7, 25: 8, 37: 9, 36: 10, 35: 11, 39: 12, 38: 13, 23: 14, 33: 15}


def immediate_bytes(value):
    """An immediate tensor of a type that may lie in a weight file, as its blob would hold it."""
    tensor = value.immediateValue.tensor
    dtype = value.type.tensorType.dataType
    kind = tensor.WhichOneof("value")
    if dtype not in CODES or kind not in ("floats", "ints", "bytes"):
        return None
    if kind == "bytes":
        return CODES[dtype], tensor.bytes.values
    letter = {11: "f", 23: "i", 22: "h", 32: "H"}.get(dtype)
    values = getattr(tensor, kind).values
    return (CODES[dtype], struct.pack(f"<{len(values)}{letter}", *values)) if letter else None


def unknown(message):
    fields = unknown_fields.UnknownFieldSet(message)
    return sorted((f.field_number, f.wire_type, str(f.data)) for f in fields)


def is_repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def differences(a, b, where, roots):
    """What message a says and b does not; weights are compared by their bytes."""
    if isinstance(a, MIL_pb2.Value) and a.WhichOneof("value") != b.WhichOneof("value"):
        sides = [blob_bytes(r, v.blobFileValue) if v.WhichOneof("value") == "blobFileValue" else immediate_bytes(v)
                 for v, r in zip((a, b), roots)]
        if sides[0] is None or sides[0] != sides[1] or a.type != b.type:
            yield f"{where}: another value"
        return
    if isinstance(a, MIL_pb2.Value.BlobFileValue):
        if blob_bytes(roots[0], a) != blob_bytes(roots[1], b) or unknown(a) != unknown(b):
            yield f"{where}: another weight"
        return
    if unknown(a) != unknown(b):
        yield f"{where}: unknown fields {unknown(a)} became {unknown(b)}"
    names = {f.name for f, _ in a.ListFields()} | {f.name for f, _ in b.ListFields()}
    for name in sorted(names):
        field = a.DESCRIPTOR.fields_by_name[name]
        x, y = getattr(a, name), getattr(b, name)
        here = f"{where}.{name}"
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if set(x) != set(y):
                yield f"{here}: keys {sorted(x)} became {sorted(y)}"
                continue
            for key in x:
                if isinstance(x[key], Message):
                    yield from differences(x[key], y[key], f"{here}[{key}]", roots)
                elif x[key] != y[key]:
                    yield f"{here}[{key}]: {x[key]!r} became {y[key]!r}"
        elif field.message_type is not None and is_repeated(field):
            if len(x) != len(y):
                yield f"{here}: {len(x)} became {len(y)}"
            for i, (p, q) in enumerate(zip(x, y)):
                yield from differences(p, q, f"{here}[{i}]", roots)
        elif field.message_type is not None:
            if a.HasField(name) != b.HasField(name):
                yield f"{here}: present {a.HasField(name)} became {b.HasField(name)}"
            else:
                yield from differences(x, y, here, roots)
        elif list(x) != list(y) if is_repeated(field) else x != y and not (x != x and y != y):
            yield f"{here}: {x!r} became {y!r}"


def compress(path):
    """coremltools' own compression must take the package and give one that loads again."""
    model = ct.models.MLModel(path, skip_model_load=True)
    config = cto.coreml.OptimizationConfig(cto.coreml.OpLinearQuantizerConfig(weight_threshold=64))
    palettes = cto.coreml.OptimizationConfig(cto.coreml.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=64))
    for run in (
        lambda: cto.coreml.linear_quantize_weights(model, config),
        lambda: cto.coreml.palettize_weights(model, palettes),
        lambda: cto.coreml.decompress_weights(model),
    ):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.mlpackage")
            run().save(out)
            load_spec(out)


def check(path, options):
    spec = load_spec(path)
    if spec.WhichOneof("Type") != "mlProgram":
        raise ValueError(f"holds {spec.WhichOneof('Type')}, not an ML Program")
    milproto.load(spec, specification_version=spec.specificationVersion, file_weights_dir=weights_folder(path))
    if options.same_as:
        found = list(differences(load_spec(options.same_as), spec, "model", (options.same_as, path)))
        if found:
            raise ValueError("; ".join(found[:5]))
    if options.compress:
        compress(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--compress", action="store_true")
    parser.add_argument("--same-as")
    options = parser.parse_args()
    faults = 0
    for path in options.packages:
        try:
            check(path, options)
        except Exception as e:  # whatever coremltools raises is the answer
            faults += 1
            print(f"{path}: {type(e).__name__}: {e}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
