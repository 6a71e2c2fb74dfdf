#!/usr/bin/env python3
"""Makes tests/data/models/qwen2-moe-tiny and qwen2-moe-mixed-tiny: Qwen2-MoE of a few small layers with made-up weights,
and what transformers says of a text. The first has experts in all layers, so that it is a GGUF file too, with
llama.cpp's names. The second has dense layers between them, and divides the weights of the experts by their sum.

    VENV/bin/python tests/oracle/make_qwen2_moe_tiny.py      # a venv with torch, transformers and gguf
"""
import pathlib

import gguf
import numpy
import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data/models"
GREEDY = 24


def make_model(seed, **keys):
    torch.manual_seed(seed)
    config = Qwen2MoeConfig(vocab_size=160, hidden_size=32, intermediate_size=72, num_hidden_layers=3,
                            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                            moe_intermediate_size=16, shared_expert_intermediate_size=40, num_experts=6,
                            num_experts_per_tok=2, bos_token_id=150, eos_token_id=151, pad_token_id=152, **keys)
    model = Qwen2MoeForCausalLM._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            spread = 0.3 if p.dim() == 1 else 1.7 / p.shape[-1] ** 0.5
            p.copy_((torch.rand_like(p) * 2 - 1) * spread + (1 if "norm" in name else 0))
            p.copy_(p.half().float())
    return model


def goldens_of(model):
    """A text, its logits, values between layers, what follows it greedily, and how far the best token lies above the next at least."""
    ids = torch.randint(0, 150, (1, 40))
    with torch.no_grad():
        said = model(ids, output_hidden_states=True)
        logits, inner = said.logits[0], [h[0].float().numpy() for h in said.hidden_states]
        text = ids
        for _ in range(GREEDY):
            text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], dim=1)
        best = model(text).logits[0].topk(2).values
    gap = (best[:, 0] - best[:, 1])[ids.shape[1] - 1 : -1].min()
    arrays = {"input_ids": ids[0].numpy().astype("i4"), "logits": logits.float().numpy(),
              "greedy_ids": text[0, ids.shape[1] :].numpy().astype("i4"), "embed_out": inner[0], "final_norm": inner[-1]}
    arrays.update({f"layer_out_{i}": values for i, values in enumerate(inner[1:-1])})
    return arrays, float(gap)


def make(folder, seed, **keys):
    """A model whose greedy tokens no rounding changes: the first from this seed on."""
    for seed in range(seed, seed + 100):
        model = make_model(seed, **keys)
        arrays, gap = goldens_of(model)
        if gap > 0.02:
            break
    (folder / "golden").mkdir(parents=True, exist_ok=True)
    for name, values in arrays.items():
        numpy.save(folder / "golden" / f"{name}.npy", values)
    write_safetensors(folder, model)
    return model


def write_safetensors(folder, model):
    model.half().save_pretrained(folder)
    model.float()
    (folder / "model.safetensors").chmod(0o644)
    (folder / "generation_config.json").unlink(missing_ok=True)


def gguf_tensors(model):
    """What llama.cpp's converter makes of the tensors: experts in stacks, the one row of a share as a vector."""
    config, state = model.config, {name: p.numpy() for name, p in model.state_dict().items()}
    yield "token_embd.weight", state["model.embed_tokens.weight"]
    yield "output_norm.weight", state["model.norm.weight"]
    yield "output.weight", state["lm_head.weight"]
    for i in range(config.num_hidden_layers):
        ours, theirs = f"blk.{i}.", f"model.layers.{i}."
        for name, source in {"attn_norm.weight": "input_layernorm.weight",
                             "ffn_norm.weight": "post_attention_layernorm.weight",
                             "attn_q.weight": "self_attn.q_proj.weight", "attn_q.bias": "self_attn.q_proj.bias",
                             "attn_k.weight": "self_attn.k_proj.weight", "attn_k.bias": "self_attn.k_proj.bias",
                             "attn_v.weight": "self_attn.v_proj.weight", "attn_v.bias": "self_attn.v_proj.bias",
                             "attn_output.weight": "self_attn.o_proj.weight",
                             "ffn_gate_inp.weight": "mlp.gate.weight",
                             "ffn_gate_shexp.weight": "mlp.shared_expert.gate_proj.weight",
                             "ffn_up_shexp.weight": "mlp.shared_expert.up_proj.weight",
                             "ffn_down_shexp.weight": "mlp.shared_expert.down_proj.weight"}.items():
            yield ours + name, state[theirs + source]
        yield ours + "ffn_gate_inp_shexp.weight", state[theirs + "mlp.shared_expert_gate.weight"].reshape(-1)
        both, width = state[theirs + "mlp.experts.gate_up_proj"], config.moe_intermediate_size
        yield ours + "ffn_gate_exps.weight", both[:, :width]
        yield ours + "ffn_up_exps.weight", both[:, width:]
        yield ours + "ffn_down_exps.weight", state[theirs + "mlp.experts.down_proj"]


def write_gguf(path, model):
    config = model.config
    writer = gguf.GGUFWriter(path, "qwen2moe")
    writer.add_vocab_size(config.vocab_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    for name, values in gguf_tensors(model):
        halves = values.ndim > 1 and not name.endswith("ffn_gate_inp.weight")
        writer.add_tensor(name, numpy.ascontiguousarray(values.astype("f2" if halves else "f4")))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    plain = make(FOLDER / "qwen2-moe-tiny", 21)
    write_gguf(FOLDER / "qwen2-moe-tiny/model-f16.gguf", plain)
    make(FOLDER / "qwen2-moe-mixed-tiny", 22, mlp_only_layers=[0], norm_topk_prob=True)


if __name__ == "__main__":
    main()
