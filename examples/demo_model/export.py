"""Writes the trained weights and the tokenizer into one GGUF file (matrices Q8_0, norms F32).

    python3 export.py --checkpoint checkpoint/ --tokenizer tokenizer.json -o demo.gguf

GGUF's architecture "llama" rotates neighbouring dimensions (2i, 2i + 1), training rotated (i, i + head_dim / 2): the
rows of the query and key matrices are therefore reordered inside each head, as every converter to GGUF does.
"""
import argparse
import json
import os
import pathlib

import gguf
import numpy as np

LAYER_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
               "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
               "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
DESCRIPTION = "A tiny story-telling Llama for the demonstration of anemone, trained on generated text of the project's own"


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in fixed:
        return fixed[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[rest.removesuffix('.weight')]}.weight"


def interleave(weight, heads):
    """Row i of a head goes to row 2i, row i + head_dim / 2 to row 2i + 1."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def deinterleave(weight, heads):
    """The inverse of interleave."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_metadata(writer, config):
    writer.add_name("anemone demo")
    writer.add_author("anemone project")
    writer.add_license("apache-2.0")
    writer.add_description(DESCRIPTION)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def write_tokenizer(writer, config, path):
    model = json.loads(pathlib.Path(path).read_text())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    special = {config["bos_token_id"], config["eos_token_id"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(tokens))])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", default="checkpoint")
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("-o", "--output", default="demo.gguf")
    args = parser.parse_args()
    config = json.loads((pathlib.Path(args.checkpoint) / "config.json").read_text())
    weights = np.load(pathlib.Path(args.checkpoint) / "weights.npz")
    heads = {"q_proj.weight": config["num_attention_heads"], "k_proj.weight": config["num_key_value_heads"]}

    writer = gguf.GGUFWriter(args.output, "llama")
    write_metadata(writer, config)
    write_tokenizer(writer, config, args.tokenizer)
    for name in weights.files:
        weight = weights[name]
        for ending, count in heads.items():
            if name.endswith(ending):
                weight = interleave(weight, count)
        if weight.ndim == 1:
            writer.add_tensor(gguf_name(name), weight)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(gguf_name(name), gguf.quantize(np.ascontiguousarray(weight), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.output}: {len(weights.files)} tensors, {os.path.getsize(args.output)} bytes")


if __name__ == "__main__":
    main()
