#!/usr/bin/env python3
"""Small encoders with random weights as torch's exporters write them: BERT-like (both exporters), whisper-encoder-like,
ViT-like. With --minilm FOLDER also the real MiniLM.

    make_encoders.py tests/data/onnx/encoders
    make_encoders.py build/encoders --minilm .cache/minilm

Writes NAME.onnx and NAME.npz: the inputs, and as "want_hidden" what onnxruntime gives for them. Needs torch,
transformers, onnx, onnxscript and onnxruntime.
"""
import argparse
import os

import numpy as np
import onnx
import onnxruntime
import torch
from transformers import (AutoModel, BertConfig, BertModel, ViTConfig, ViTModel, WhisperConfig)
from transformers.models.whisper.modeling_whisper import WhisperEncoder


class Text(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Whole(torch.nn.Module):
    """Sound or pictures in, hidden states out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).last_hidden_state


def text_inputs(vocabulary, tokens, real):
    rng = np.random.default_rng(3)
    ids = rng.integers(5, vocabulary, (1, tokens))
    mask = np.zeros((1, tokens), np.int64)
    mask[:, :real] = 1
    return {"input_ids": ids, "attention_mask": mask}


def strip(path):
    """Without notes on where each node came from."""
    model = onnx.load(path)
    for part in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.graph.ClearField("value_info")
    onnx.save(model, path)


def write(folder, name, model, inputs, dynamo):
    path = os.path.join(folder, name + ".onnx")
    tensors = tuple(torch.from_numpy(v) for v in inputs.values())
    options = {"dynamo": True, "external_data": False} if dynamo else {"dynamo": False, "opset_version": 17}
    with torch.no_grad():
        torch.onnx.export(model.eval(), tensors, path, input_names=list(inputs), output_names=["hidden"], **options)
    strip(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    want = session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()})[0]
    np.savez(os.path.join(folder, name + ".npz"), want_hidden=want,
             **{k: v.astype(np.int32) if v.dtype == np.int64 else v for k, v in inputs.items()})
    print(path, os.path.getsize(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--minilm")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    torch.manual_seed(1)
    eager = {"attn_implementation": "eager"}
    config = BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                        max_position_embeddings=16)
    text = text_inputs(40, 7, 5)
    write(options.folder, "bert", Text(BertModel(config, add_pooling_layer=False)), text, False)
    write(options.folder, "bert_dynamo", Text(BertModel(config, add_pooling_layer=False)), text, True)
    sound = WhisperConfig(num_mel_bins=6, d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=32,
                          max_source_positions=9, **eager)
    rng = np.random.default_rng(4)
    write(options.folder, "whisper", Whole(WhisperEncoder(sound)),
          {"x": rng.standard_normal((1, 6, 18)).astype(np.float32)}, False)
    picture = ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=8,
                        patch_size=4, **eager)
    write(options.folder, "vit", Whole(ViTModel(picture, add_pooling_layer=False)),
          {"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)}, False)
    if options.minilm:
        model = AutoModel.from_pretrained(options.minilm)
        text = text_inputs(30000, 128, 100)
        write(options.folder, "minilm", Text(model), text, False)
        write(options.folder, "minilm_dynamo", Text(model), text, True)


main()
