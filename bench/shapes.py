"""Decoder shapes that the benches use: public configurations, the weights are random."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    name: str
    arch: str  # as GGUF calls it
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    qkv_bias: bool = False
    fused: bool = False  # one tensor for q, k, v and one for gate and up, as Phi stores them
    rotary: int = 0  # dimensions that are rotated; 0: all
    rope_base: float = 10000.0
    eps: float = 1e-6
    context: int = 32768
    original_context: int = 0  # longrope, with factors as tensors

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def layer_matrices(self):
        """(name, rows, columns) of the projections of one layer."""
        q, kv, h, f = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.hidden, self.ffn
        if self.fused:
            return [("attn_qkv", q + 2 * kv, h), ("attn_output", h, q), ("ffn_up", 2 * f, h), ("ffn_down", h, f)]
        return [("attn_q", q, h), ("attn_k", kv, h), ("attn_v", kv, h), ("attn_output", h, q), ("ffn_gate", f, h),
                ("ffn_up", f, h), ("ffn_down", h, f)]

    @property
    def weights(self):
        """Elements of all matrices; the head is the embedding's."""
        return self.layers * sum(r * c for _, r, c in self.layer_matrices()) + self.vocab * self.hidden


SHAPES = {s.name: s for s in [
    Shape("smollm2-135m", "llama", 576, 30, 9, 3, 1536, 49152, rope_base=100000.0, eps=1e-5, context=8192),
    Shape("qwen2.5-0.5b", "qwen2", 896, 24, 14, 2, 4864, 151936, qkv_bias=True, rope_base=1e6),
    Shape("phi-4-mini", "phi3", 3072, 32, 24, 8, 8192, 200064, fused=True, rotary=96, eps=1e-5, context=131072,
          original_context=4096),
]}
