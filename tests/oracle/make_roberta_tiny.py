#!/usr/bin/env python3
"""Makes tests/data/models/roberta-tiny: a RoBERTa of two small layers with made-up weights and what transformers says of
a text. Its positions count from the padding token on, which no other given model does.

    VENV/bin/python tests/oracle/make_roberta_tiny.py      # a venv with torch and transformers
"""
import pathlib

import numpy
import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data/models/roberta-tiny"


def main():
    torch.manual_seed(12)
    config = RobertaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=64, max_position_embeddings=66, type_vocab_size=1, num_labels=3,
                           id2label={0: "calm", 1: "wind", 2: "storm"}, label2id={"calm": 0, "wind": 1, "storm": 2})
    model = RobertaForSequenceClassification._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            spread = 0.3 if p.dim() == 1 else 1.7 / p.shape[1] ** 0.5
            p.copy_((torch.rand_like(p) * 2 - 1) * spread + (1 if name.endswith("LayerNorm.weight") else 0))
            p.copy_(p.half().float())
        ids = torch.randint(4, 64, (1, 40))
        out = model(ids, output_hidden_states=True)
    model.half().save_pretrained(FOLDER)
    (FOLDER / "model.safetensors").chmod(0o644)
    golden = FOLDER / "golden"
    golden.mkdir(exist_ok=True)
    numpy.save(golden / "input_ids.npy", ids[0].numpy().astype("i4"))
    numpy.save(golden / "last_hidden_state.npy", out.hidden_states[-1][0].float().numpy())
    numpy.save(golden / "logits.npy", out.logits[0].float().numpy())


if __name__ == "__main__":
    main()
