"""Makes tiny random models of every family and rope scaling with transformers, with golden outputs beside them.

    pip install torch transformers safetensors numpy
    python3 tests/reference/oracle_models.py data/models && ANEMONE_DATA=data build/dev/unit_tests -tc="the reference*"

The folders have the form that tests/reference/golden_models.h walks. config.json has the keys of published
checkpoints (rope_theta, rope_scaling), config_v5.json what transformers 5 saves (rope_parameters).
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers as tf

BASE = dict(vocab_size=160, hidden_size=48, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            tie_word_embeddings=False)
FACTORS = dict(short_factor=[1.0, 1.0, 1.1, 1.2, 1.3, 1.4], long_factor=[1.0, 1.3, 1.7, 3.1, 5.0, 6.0])


def rope(kind, theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


# name: (configuration class, model class, keys)
CASES = {
    "llama-biases-linear": (tf.LlamaConfig, dict(attention_bias=True, mlp_bias=True, head_dim=20, **rope("linear", factor=4.0))),
    "llama-ratio5-llama3": (tf.LlamaConfig, dict(hidden_size=50, num_attention_heads=5, num_key_value_heads=1, head_dim=16, **rope(
        "llama3", 500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "llama-yarn": (tf.LlamaConfig, dict(head_dim=24, **rope("yarn", factor=8.0, original_max_position_embeddings=32))),
    "llama-yarn-mscale": (tf.LlamaConfig, dict(head_dim=24, **rope(
        "yarn", factor=8.0, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=0.7, beta_fast=16.0,
        beta_slow=2.0, truncate=False))),
    "llama-yarn-attention": (tf.LlamaConfig, dict(head_dim=24, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64, attention_factor=1.25))),
    "llama-dynamic": (tf.LlamaConfig, dict(head_dim=24, max_position_embeddings=32, **rope("dynamic", factor=2.0))),
    "mistral-window": (tf.MistralConfig, dict(sliding_window=7, head_dim=12, tie_word_embeddings=True, **rope("default"))),
    "qwen2-window": (tf.Qwen2Config, dict(use_sliding_window=True, sliding_window=6, max_window_layers=1,
                                          **rope("default", 1e6))),
    "qwen3-yarn": (tf.Qwen3Config, dict(head_dim=16, attention_bias=True, **rope(
        "yarn", 1e6, factor=4.0, original_max_position_embeddings=64))),
    "phi3-window": (tf.Phi3Config, dict(sliding_window=9, num_attention_heads=3, num_key_value_heads=3, **rope("default"))),
    "phi3-longrope": (tf.Phi3Config, dict(hidden_size=64, original_max_position_embeddings=24, sliding_window=None,
        **rope("longrope", partial_rotary_factor=0.75, original_max_position_embeddings=24, **FACTORS))),
    "hunyuan-alpha": (tf.HunYuanDenseV1Config, dict(head_dim=20, attention_bias=True, **rope("dynamic", alpha=50.0, factor=1.0))),
    "gemma2-odd": (tf.Gemma2Config, dict(head_dim=20, sliding_window=5, query_pre_attn_scalar=40, hidden_size=56,
                                         attn_logit_softcapping=3.0, final_logit_softcapping=7.0, num_hidden_layers=5,
                                         tie_word_embeddings=True, **rope("default"))),
    "gemma3-unused-cap": (tf.Gemma3TextConfig, dict(head_dim=20, sliding_window=5, attn_logit_softcapping=2.0, num_hidden_layers=7,
                                                    query_pre_attn_scalar=30, hidden_size=56, tie_word_embeddings=True)),
    "gemma3-linear": (tf.Gemma3TextConfig, dict(
        head_dim=20, sliding_window=5, query_pre_attn_scalar=30, num_hidden_layers=7, hidden_size=56,
        tie_word_embeddings=True, layer_types=["full_attention" if i % 3 == 2 else "sliding_attention" for i in range(7)],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})),
}
MODELS = {tf.LlamaConfig: tf.LlamaForCausalLM, tf.MistralConfig: tf.MistralForCausalLM, tf.Qwen2Config: tf.Qwen2ForCausalLM,
          tf.Qwen3Config: tf.Qwen3ForCausalLM, tf.Phi3Config: tf.Phi3ForCausalLM,
          tf.HunYuanDenseV1Config: tf.HunYuanDenseV1ForCausalLM, tf.Gemma2Config: tf.Gemma2ForCausalLM,
          tf.Gemma3TextConfig: tf.Gemma3ForCausalLM}


def published_keys(config):
    """The same configuration in the keys of transformers 4."""
    old = {k: v for k, v in config.items() if k != "rope_parameters"}
    parameters = dict(config["rope_parameters"])
    if "full_attention" in parameters:
        old["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        parameters = dict(parameters["full_attention"])
    old["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        old["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    kind = parameters.pop("rope_type")  # older files say "type"
    parameters = {("rope_type" if kind in ("linear", "llama3") else "type"): kind, **parameters}
    old["rope_scaling"] = None if kind == "default" else parameters
    return old


def goldens(model, ids, prefix, folder, greedy):
    with torch.no_grad():
        np.save(folder / f"{prefix}input_ids.npy", np.array(ids, dtype=np.int64))
        out = model(torch.tensor([ids]), output_hidden_states=True)
        np.save(folder / f"{prefix}logits.npy", out.logits[0].float().numpy())
        for i, hidden in enumerate(out.hidden_states[:-1]):
            name = "embed_out" if i == 0 else f"layer_out_{i - 1}"
            np.save(folder / f"{prefix}{name}.npy", hidden[0].float().numpy())
        text = list(ids)
        for _ in range(greedy):
            text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
        np.save(folder / f"{prefix}greedy_ids.npy", np.array(text[len(ids):], dtype=np.int64))


def make(name, config_class, keys, root):
    torch.manual_seed(len(name) * 7919 + sum(map(ord, name)))
    folder = root / name
    (folder / "golden").mkdir(parents=True, exist_ok=True)
    config = config_class(**{**BASE, **keys}, attn_implementation="eager")
    model = MODELS[config_class](config).float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            is_norm = "norm" in key
            centre = (0.0 if "gemma" in name else 1.0) if is_norm else 0.0
            p.copy_(centre + torch.randn_like(p) * (0.2 if is_norm or key.endswith("bias") else 0.25))
    model.save_pretrained(folder)
    (folder / "config.json").rename(folder / "config_v5.json")
    saved = json.loads((folder / "config_v5.json").read_text())
    (folder / "config.json").write_text(json.dumps(published_keys(saved), indent=1))
    draw = np.random.default_rng(5)
    goldens(model, draw.integers(3, 160, 20).tolist(), "", folder / "golden", 4)
    goldens(model, draw.integers(3, 160, 90).tolist(), "long_", folder / "golden", 4)


if __name__ == "__main__":
    for case, (config_class, keys) in CASES.items():
        make(case, config_class, keys, pathlib.Path(sys.argv[1]))
        print("made", case)
