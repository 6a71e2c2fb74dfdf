#!/usr/bin/env python3
"""Makes the example package: an attention head that remembers a text and says which letter comes next.

    make_recall.py OUTPUT_FOLDER

The head looks for earlier places with the same two last letters and answers with what followed there ("induction").
Its weights are written down, not trained: letters are orthogonal vectors, so a match is a large product. It has what a
decoder has (1x1 convolutions, a cache written through a mask, masked attention, states) in 26 kB.

Writes recall.mlpackage, steps/NN.npz (the inputs for each letter of TEXT) and expected.npz (numpy, in double precision
over the same half-precision weights). Needs coremltools and numpy from PyPI. Same output for every run, except for the
identifiers in Manifest.json.
"""

import os
import shutil
import sys

import coremltools as ct
import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

TEXT = "tide pool, tide p"
ALPHABET = " abcdefghijklmnopqrstuvwxyz.,'-?"
LETTERS, CONTEXT = len(ALPHABET), 32
MASKED = -10000.0


def orthogonal(rng, size):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def make_weights():
    """One matrix for each convolution, [out, in], in half precision."""
    rng = np.random.default_rng(7)
    embed, turn, value = orthogonal(rng, LETTERS), orthogonal(rng, 2 * LETTERS), orthogonal(rng, LETTERS)
    # The current letter counts twice as much as the one before it; e^6 between a match and none.
    sharpness = np.repeat([12.0, 6.0], LETTERS)
    weights = {
        "embed": embed,
        "query": turn * sharpness,
        "key": turn,
        "value": value,
        "head": 8 * embed.T @ value.T,
    }
    return {name: w.astype(np.float16) for name, w in weights.items()}


def build(weights):
    half = types.fp16

    def conv(name, x):
        return mb.conv(x=x, weight=weights[name][:, :, None, None], name=name)

    def write(state, old, new, mask, keep, name):
        kept = mb.mul(x=old, y=keep, name=name + "_kept")
        added = mb.mul(x=new, y=mask, name=name + "_added")
        return mb.coreml_update_state(state=state, value=mb.add(x=kept, y=added, name=name + "_next"), name=name + "_update")

    @mb.program(
        input_specs=[
            mb.TensorSpec((1, LETTERS, 1, 1), dtype=half),
            mb.TensorSpec((1, 1, CONTEXT, 1), dtype=half),
            mb.TensorSpec((1, 1, 1, CONTEXT), dtype=half),
            mb.StateTensorSpec((1, 2 * LETTERS, 1, 1), dtype=half),
            mb.StateTensorSpec((1, 1, CONTEXT, 2 * LETTERS), dtype=half),
            mb.StateTensorSpec((1, 1, CONTEXT, LETTERS), dtype=half),
        ],
        opset_version=ct.target.iOS18,
    )
    def main(letter, write_mask, mask, last, k_cache, v_cache):
        now = conv("embed", letter)
        before = mb.read_state(input=last, name="before")
        previous, _ = mb.split(x=before, num_splits=2, axis=1, name="previous")
        both = mb.concat(values=[now, previous], axis=1, name="both")
        mb.coreml_update_state(state=last, value=both, name="last_update")
        q = mb.transpose(x=conv("query", both), perm=[0, 2, 3, 1], name="q")
        k = mb.transpose(x=conv("key", before), perm=[0, 2, 3, 1], name="k")
        v = mb.transpose(x=conv("value", now), perm=[0, 2, 3, 1], name="v")
        keep = mb.sub(x=np.float16(1), y=write_mask, name="keep")
        keys = write(k_cache, mb.read_state(input=k_cache, name="k_old"), k, write_mask, keep, "k")
        values = write(v_cache, mb.read_state(input=v_cache, name="v_old"), v, write_mask, keep, "v")
        scores = mb.add(x=mb.matmul(x=q, y=keys, transpose_y=True, name="products"), y=mask, name="scores")
        found = mb.matmul(x=mb.softmax(x=scores, axis=-1, name="attention"), y=values, name="found")
        logits = conv("head", mb.transpose(x=found, perm=[0, 3, 1, 2], name="found_channels"))
        logits = mb.identity(x=logits, name="logits")
        best = mb.reduce_argmax(x=logits, axis=1, keep_dims=False, name="best")
        return logits, best

    return main


def save(path, weights):
    model = ct.convert(
        build(weights),
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS18,
        pass_pipeline=ct.PassPipeline.EMPTY,
        skip_model_load=True,
    )
    model.short_description = "Remembers a text and says which letter comes next"
    model.author = "anemone"
    model.license = "Apache-2.0"
    model.version = "1"
    model.user_defined_metadata["alphabet"] = ALPHABET
    del model.user_defined_metadata["com.github.apple.coremltools.conversion_date"]
    shutil.rmtree(path, ignore_errors=True)
    model.save(path)


def step_inputs(text, step):
    letter = np.zeros((1, LETTERS, 1, 1), np.float16)
    letter[0, ALPHABET.index(text[step])] = 1
    write_mask = np.zeros((1, 1, CONTEXT, 1), np.float16)
    write_mask[0, 0, step] = 1
    mask = np.full((1, 1, 1, CONTEXT), MASKED, np.float16)
    mask[..., : step + 1] = 0
    return {"letter": letter, "write_mask": write_mask, "mask": mask}


def expected(weights, text):
    """The same in plain numpy: logits of every step and the states at the end."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    last, keys, values = np.zeros(2 * LETTERS), np.zeros((CONTEXT, 2 * LETTERS)), np.zeros((CONTEXT, LETTERS))
    logits = []
    for step, letter in enumerate(text):
        now = w["embed"][:, ALPHABET.index(letter)]
        both = np.concatenate([now, last[:LETTERS]])
        keys[step], values[step] = w["key"] @ last, w["value"] @ now
        last = both
        scores = keys[: step + 1] @ (w["query"] @ both)
        attention = np.exp(scores - scores.max())
        logits.append(w["head"] @ (values[: step + 1].T @ (attention / attention.sum())))
    return {
        "logits": np.array(logits, np.float32),
        "best": np.argmax(logits, axis=1).astype(np.int32),
        "last": last.reshape(1, -1, 1, 1).astype(np.float32),
        "k_cache": keys[None, None].astype(np.float32),
        "v_cache": values[None, None].astype(np.float32),
    }


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    weights = make_weights()
    os.makedirs(os.path.join(folder, "steps"), exist_ok=True)
    save(os.path.join(folder, "recall.mlpackage"), weights)
    for step in range(len(TEXT)):
        np.savez(os.path.join(folder, "steps", f"{step:02}.npz"), **step_inputs(TEXT, step))
    answer = expected(weights, TEXT)
    np.savez(os.path.join(folder, "expected.npz"), **answer)
    for step in range(len(TEXT)):
        print(f"{TEXT[: step + 1]!r} -> {ALPHABET[answer['best'][step]]!r} {answer['logits'][step].max():.2f}")


if __name__ == "__main__":
    main()
