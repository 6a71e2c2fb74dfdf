"""The network for training (torch). Its parameters have the names of the checkpoint, so state_dict() is what is stored.

forward.py computes the same in numpy. Here every expert is computed for every token and the gates of those that the
router did not choose are zero: the same values and gradients as a sparse computation, and fast at this size.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .forward import yarn_frequencies
from .labels import LABELS


@dataclass
class Size:
    vocab_size: int = 4096
    hidden_size: int = 128
    intermediate_size: int = 64
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    num_local_experts: int = 8
    num_experts_per_tok: int = 4
    sliding_window: int = 64
    rms_norm_eps: float = 1e-5


def make_config(size: Size) -> dict:
    """config.json as transformers reads it. Token 0 is padding."""
    rope = {
        "rope_type": "yarn",
        "rope_theta": 150000.0,
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    }
    return {
        "architectures": ["OpenAIPrivacyFilterForTokenClassification"],
        "model_type": "openai_privacy_filter",
        **asdict(size),
        "max_position_embeddings": 131072,
        "initial_context_length": 4096,
        "default_n_ctx": 131072,
        "attention_bias": True,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "rope_theta": rope["rope_theta"],
        "rope_parameters": rope,
        "id2label": {str(i): label for i, label in enumerate(LABELS)},
        "label2id": {label: i for i, label in enumerate(LABELS)},
        "dtype": "float16",
    }


class RMSNorm(nn.Module):
    def __init__(self, size: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE over neighbouring pairs; x [batch, tokens, heads, size]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.head_dim, self.kv_heads = size.head_dim, size.num_key_value_heads
        self.group = size.num_attention_heads // size.num_key_value_heads
        query, key = size.num_attention_heads * size.head_dim, size.num_key_value_heads * size.head_dim
        self.q_proj = nn.Linear(size.hidden_size, query)
        self.k_proj = nn.Linear(size.hidden_size, key)
        self.v_proj = nn.Linear(size.hidden_size, key)
        self.o_proj = nn.Linear(query, size.hidden_size)
        self.sinks = nn.Parameter(torch.zeros(size.num_attention_heads))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        query = rotate(self.q_proj(x).view(batch, tokens, -1, self.head_dim), cos, sin)
        query = query.view(batch, tokens, self.kv_heads, self.group, self.head_dim)
        key = rotate(self.k_proj(x).view(batch, tokens, -1, self.head_dim), cos, sin)
        value = self.v_proj(x).view(batch, tokens, -1, self.head_dim)
        scores = torch.einsum("btkgd,bskd->bkgts", query, key) * self.head_dim**-0.5
        scores = scores.float() + mask
        sink = self.sinks.view(1, self.kv_heads, self.group, 1, 1).float()
        largest = torch.maximum(scores.amax(-1, keepdim=True), sink).detach()
        exponents = torch.exp(scores - largest)
        weights = exponents / (exponents.sum(-1, keepdim=True) + torch.exp(sink - largest))
        out = torch.einsum("bkgts,bskd->btkgd", weights.to(value.dtype), value)
        return self.o_proj(out.reshape(batch, tokens, -1))


class Experts(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        experts, hidden, inner = size.num_local_experts, size.hidden_size, size.intermediate_size
        self.gate_up_proj = nn.Parameter(torch.randn(experts, hidden, 2 * inner) * hidden**-0.5)
        self.gate_up_proj_bias = nn.Parameter(torch.zeros(experts, 2 * inner))
        self.down_proj = nn.Parameter(torch.randn(experts, inner, hidden) * inner**-0.5 * 0.5)
        self.down_proj_bias = nn.Parameter(torch.zeros(experts, hidden))


class Mlp(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.used = size.num_experts_per_tok
        self.router = nn.Linear(size.hidden_size, size.num_local_experts)
        self.experts = Experts(size)

    def forward(self, x: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """The output, and a loss that is small when all experts are used alike (as in Switch Transformers)."""
        with torch.autocast(x.device.type, enabled=False):
            router = F.linear(x.float(), self.router.weight.float(), self.router.bias.float())
        chosen, index = router.topk(self.used, -1)
        gates = torch.zeros_like(router).scatter(-1, index, chosen.softmax(-1))
        real = valid.unsqueeze(-1).float()
        share = ((gates > 0).float() * real).sum((0, 1)) / real.sum() / self.used
        probability = (router.softmax(-1) * real).sum((0, 1)) / real.sum()
        balance = router.shape[-1] * (share * probability).sum()
        return self._mixed(x, gates), balance

    def _mixed(self, x: Tensor, gates: Tensor) -> Tensor:
        experts, dtype = self.experts, x.dtype
        count, hidden, both = experts.gate_up_proj.shape
        inner = both // 2
        wide = experts.gate_up_proj.permute(1, 0, 2).reshape(hidden, count * both).to(dtype)
        z = (x @ wide).unflatten(-1, (count, both)) + experts.gate_up_proj_bias.to(dtype)
        gate, up = z[..., :inner].clamp(max=7), z[..., inner:].clamp(-7, 7)
        value = (up + 1) * gate * torch.sigmoid(1.702 * gate) * gates.unsqueeze(-1).to(dtype)
        out = value.flatten(-2) @ experts.down_proj.reshape(count * inner, hidden).to(dtype)
        return out + gates.to(dtype) @ experts.down_proj_bias.to(dtype)


class Layer(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.input_layernorm = RMSNorm(size.hidden_size, size.rms_norm_eps)
        self.self_attn = Attention(size)
        self.post_attention_layernorm = RMSNorm(size.hidden_size, size.rms_norm_eps)
        self.mlp = Mlp(size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        out, balance = self.mlp(self.post_attention_layernorm(x), valid)
        return x + out, balance


class Body(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocab_size, size.hidden_size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.num_hidden_layers))
        self.norm = RMSNorm(size.hidden_size, size.rms_norm_eps)


class PrivacyFilter(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.model = Body(size)
        self.score = nn.Linear(size.hidden_size, len(LABELS))
        frequencies, self.rope_factor = yarn_frequencies(make_config(size))
        self.register_buffer("frequencies", torch.from_numpy(frequencies), persistent=False)
        nn.init.normal_(self.model.embed_tokens.weight, std=0.5)
        for name, parameter in self.named_parameters():
            if "proj.weight" in name:
                scale = 0.5 if "o_proj" in name else 1.0
                nn.init.normal_(parameter, std=scale * parameter.shape[1] ** -0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
        """ids, documents [batch, tokens]; tokens see those of the same document. 0: padding. Logits, balance loss."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        near = (positions[:, None] - positions).abs() <= self.size.sliding_window
        visible = near & (documents[:, :, None] == documents[:, None, :])
        mask = torch.zeros(visible.shape, device=ids.device).masked_fill_(~visible, -1e9)[:, None, None]
        x = self.model.embed_tokens(ids)
        if torch.is_autocast_enabled(ids.device.type):
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        angles = (positions[:, None].float() * self.frequencies)[None, :, None]
        cos, sin = ((f(angles) * self.rope_factor).to(x.dtype) for f in (torch.cos, torch.sin))
        total = 0.0
        for layer in self.model.layers:
            x, balance = layer(x, cos, sin, mask, documents > 0)
            total = total + balance
        return self.score(self.model.norm(x)).float(), total / len(self.model.layers)
