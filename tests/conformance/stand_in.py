"""Stands in for Apple's native module `coremltools.libcoremlpython`, which exists on macOS only.

    import stand_in
    stand_in.install()          # before the first `import coremltools`
    # from here on MLModel(...).predict(...) runs `anemone predict`

coremltools talks to Core ML through a handful of proxy classes of that module. Here a model proxy keeps a snapshot of
the package it was given (Core ML compiles at load, so tests may delete the package afterwards) and starts the anemone
command once per prediction: arrays go over in .npz files. coremltools is also told that it is on macOS 15, so that
tests for every opset up to iOS 18 predict.

`observer` is called with each program that is loaded or run; the pytest plugin listens there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import types

import numpy as np

MACOS = (15, 5)
SPECIFICATION_VERSION = 9  # what macOS 15 reads: iOS 18
TIMEOUT_S = 300

command = ["anemone", "predict"]  # the plugin puts the real one here


class NotApplicable(Exception):
    """What the command is not meant to run: images, neural networks, pipelines."""


class Observer:
    """Told what happens to models; `refuse` may raise what the test runner understands as a skip."""

    def loaded(self, program):
        pass

    def predicted(self, program):
        pass

    def refuse(self, reason):
        raise NotApplicable(reason)


observer = Observer()


class Program:
    """What a test's program is made of: `ops`, the types of its operations, constants aside; `half`, whether any of its
    inputs, constants or results is declared fp16."""

    def __init__(self, program=None):
        self.ops, self.half = set(), False
        for function in program.functions.values() if program else []:
            self._note_types(function.inputs)
            for block in function.block_specializations.values():
                self._walk(block)

    def _walk(self, block):
        for op in block.operations:
            self._note_types(op.outputs)
            if op.type != "const":
                self.ops.add(op.type)
            for inner in op.blocks:
                self._walk(inner)

    def _note_types(self, values):
        from coremltools.proto import MIL_pb2

        self.half = self.half or any(v.type.tensorType.dataType == MIL_pb2.FLOAT16 for v in values)


def _link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _copy_package(source, folder):
    target = os.path.join(folder, "model" + os.path.splitext(source)[1])
    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=_link_or_copy)
    else:
        _link_or_copy(source, target)
    return target


class _MLState:
    """Values of a model's states, zero at first."""

    def __init__(self, features):
        self.values = {}
        for feature in features:
            array = feature.type.stateType.arrayType
            self.values[feature.name] = np.zeros(tuple(array.shape), np.float32)

    def read_state(self, name):
        if name not in self.values:
            raise RuntimeError(f"there is no state named {name}")
        return self.values[name].copy()

    def write_state(self, name, value):
        if name not in self.values:
            raise RuntimeError(f"there is no state named {name}")
        value = np.asarray(value)
        if value.shape != self.values[name].shape:
            raise RuntimeError(f"the state {name} has shape {self.values[name].shape}, not {value.shape}")
        self.values[name] = value.astype(np.float32)


class _MLModelAssetProxy:
    def __init__(self, path, folder=None):
        self.path, self.folder = path, folder


class _MLModelProxy:
    """One function of one model."""

    def __init__(self, path, compute_units="ALL", function_name="", hints=None, asset=None):
        started = time.perf_counter_ns()
        path = asset.path if asset is not None else path
        compiled = os.path.join(path, "package")  # as compileModel leaves it
        if os.path.isdir(compiled):
            path = os.path.join(compiled, os.listdir(compiled)[0])
        if not os.path.exists(path):
            raise RuntimeError(f"there is no model at {path}")
        self._folder = tempfile.TemporaryDirectory(prefix="conformance")
        self._path = _copy_package(path, self._folder.name)
        self._function = function_name or ""
        self._described = None
        self._last_prediction_ns = 0
        spec = self._read_spec()
        self._kind = spec.WhichOneof("Type")
        self._program = Program(spec.mlProgram if self._kind == "mlProgram" else None)
        observer.loaded(self._program)
        if self._kind == "mlProgram" and self._function and self._function not in spec.mlProgram.functions:
            raise RuntimeError(f"the model has no function named {self._function}")
        self._load_ns = time.perf_counter_ns() - started

    # ------------------------------------------------------------------------------- what coremltools calls

    @staticmethod
    def maximum_supported_specification_version():
        return SPECIFICATION_VERSION

    @staticmethod
    def auto_set_specification_version(spec):
        return spec

    @staticmethod
    def compileModel(path):
        """A folder that ends in .mlmodelc and holds the package as it is."""
        folder = os.path.join(tempfile.mkdtemp(prefix="conformance"), "model.mlmodelc")
        os.makedirs(os.path.join(folder, "package"))
        _copy_package(path, os.path.join(folder, "package"))
        return folder

    @staticmethod
    def create_model_asset_from_path(path):
        from coremltools.models.model import MLModelAsset

        return MLModelAsset(_MLModelAssetProxy(path))

    @staticmethod
    def create_model_asset_from_memory(spec_data, blob_mapping):
        """Core ML takes the bytes of a model and of its weight files; a package on disk says the same."""
        from coremltools.models.model import MLModelAsset
        from coremltools.models.utils import save_spec
        from coremltools.proto import Model_pb2

        folder = tempfile.TemporaryDirectory(prefix="conformance")
        weights = os.path.join(folder.name, "weights")
        os.makedirs(weights)
        for name, data in blob_mapping.items():
            with open(os.path.join(weights, os.path.basename(name)), "wb") as file:
                file.write(data)
        path = os.path.join(folder.name, "model.mlpackage")
        save_spec(Model_pb2.Model.FromString(spec_data), path, weights_dir=weights)
        return MLModelAsset(_MLModelAssetProxy(path, folder))

    def get_compiled_model_path(self):
        return self.compileModel(self._path)

    def get_load_duration_in_nano_seconds(self):
        return self._load_ns

    def get_last_predict_duration_in_nano_seconds(self):
        return self._last_prediction_ns

    def newState(self):
        return _MLState(self._description().state)

    def batchPredict(self, batch):
        return [self.predict(data) for data in batch]

    def predict(self, data, state=None):
        started = time.perf_counter_ns()
        self._refuse_what_does_not_apply()
        observer.predicted(self._program)
        with tempfile.TemporaryDirectory(prefix="conformance") as folder:
            outputs = self._run(folder, data, state)
        self._last_prediction_ns = time.perf_counter_ns() - started
        return {feature.name: self._as_core_ml_gives_it(feature, outputs) for feature in self._description().output}

    # ------------------------------------------------------------------------------- how

    def _read_spec(self):
        from coremltools.models.utils import load_spec

        return load_spec(self._path)

    def _description(self):
        """Inputs, outputs and states of the function: the model's own, or those of one of several functions."""
        if self._described is None:
            description = self._read_spec().description
            self._described = description
            if description.functions:
                wanted = self._function or description.defaultFunctionName
                self._described = {f.name: f for f in description.functions}.get(wanted)
                if self._described is None:
                    raise RuntimeError(f"the model has no function named {wanted}")
        return self._described

    def _refuse_what_does_not_apply(self):
        if self._kind != "mlProgram":
            observer.refuse(f"model type {self._kind}")
        description = self._description()
        for feature in list(description.input) + list(description.output):
            if feature.type.WhichOneof("Type") == "imageType":
                observer.refuse("image")

    def _run(self, folder, data, state):
        inputs, outputs, states = (os.path.join(folder, name) for name in ("in.npz", "out.npz", "state.npz"))
        np.savez(inputs, **{name: self._as_declared(name, value) for name, value in data.items()})
        line = command + [self._path, "--inputs", inputs, "--outputs", outputs]
        if self._function:
            line += ["--function", self._function]
        if state is not None:
            np.savez(states, **state.values)
            line += ["--state", states]
        done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode:
            said = done.stderr.strip()[-2000:] or f"status {done.returncode}"
            raise RuntimeError(f"Unable to compute the prediction using ML Program: {said}")  # Core ML's words
        if state is not None:
            with np.load(states) as loaded:
                state.values = dict(loaded)
        with np.load(outputs) as loaded:
            return dict(loaded)

    def _as_declared(self, name, value):
        """Arrays have at least one dimension; those for whole numbers are cut to them, as Core ML does with floats."""
        array = np.atleast_1d(np.asarray(value))
        features = {feature.name: feature.type.multiArrayType for feature in self._description().input}
        whole = name in features and features[name].dataType == features[name].INT32
        return array.astype(np.int32) if whole else array

    @staticmethod
    def _as_core_ml_gives_it(feature, outputs):
        """Arrays as they are; a class label as str or int; class probabilities as a dictionary."""
        kind = feature.type.WhichOneof("Type")
        if feature.name not in outputs:
            raise RuntimeError(f"anemone gave no output {feature.name}, only {sorted(outputs)}")
        value = outputs[feature.name]
        if kind == "stringType":
            return str(value[0])
        if kind == "int64Type":
            return int(value[0])
        if kind == "doubleType":
            return float(value[0])
        if kind == "dictionaryType":
            as_key = int if feature.type.dictionaryType.WhichOneof("KeyType") == "int64KeyType" else str
            labels = outputs[feature.name + ".labels"]
            return {as_key(label): float(share) for label, share in zip(labels, value)}
        return value


def install():
    """Puts the module in place and makes coremltools believe that it runs on macOS."""
    module = types.ModuleType("coremltools.libcoremlpython")
    module._MLModelProxy = _MLModelProxy
    module._MLModelAssetProxy = _MLModelAssetProxy
    for name in ("ComputePlan", "CPUComputeDevice", "GPUComputeDevice", "NeuralEngineComputeDevice"):
        # Imported, never made: they need the device.
        setattr(module, f"_ML{name}Proxy", type(f"_ML{name}Proxy", (), {}))
    sys.modules[module.__name__] = module

    import coremltools
    import coremltools._deps
    import coremltools.models.utils

    coremltools.libcoremlpython = module
    says = {"_IS_MACOS": True, "_is_macos": lambda: True, "_macos_version": lambda: MACOS}
    for name, loaded in list(sys.modules.items()):  # some have taken the names over with `from … import`
        if name.startswith("coremltools"):
            for attribute, value in says.items():
                if hasattr(loaded, attribute):
                    setattr(loaded, attribute, value)
