"""The network's forward pass in numpy, float32: enough to score and to test without torch.

    network = Network(*read_checkpoint(folder))
    scores = network.log_probabilities(ids)       # [tokens, 33]

The architecture is that of openai/privacy-filter: layers of attention over a band of tokens to both sides with a
learned sink for each head, and experts of which each token uses the best four.
"""

import math

import numpy as np

MASKED = np.float32(-1e9)


def yarn_frequencies(config: dict) -> tuple[np.ndarray, float]:
    """Angles per position for each pair of dimensions, and the factor on cos and sin (YaRN, not truncated)."""
    rope, size = config["rope_parameters"], config["head_dim"]
    base, factor = rope["rope_theta"], rope["factor"]
    powers = base ** (np.arange(0, size, 2, dtype=np.float64) / size)

    def dimension(rotations: float) -> float:
        return (
            size * math.log(rope["original_max_position_embeddings"] / (rotations * 2 * math.pi)) / (2 * math.log(base))
        )

    low, high = max(dimension(rope["beta_fast"]), 0), min(dimension(rope["beta_slow"]), size - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(size // 2, dtype=np.float64) - low) / (high - low), 0, 1)
    frequencies = ramp / (factor * powers) + (1 - ramp) / powers
    return frequencies.astype(np.float32), 0.1 * math.log(factor) + 1.0


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """RoPE over neighbouring pairs; x [tokens, heads, size]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack((even * cos - odd * sin, odd * cos + even * sin), -1).reshape(x.shape)


class Network:
    def __init__(self, config: dict, weights: dict[str, np.ndarray]):
        self.config = config
        self.weights = weights
        self.frequencies, self.rope_factor = yarn_frequencies(config)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def logits(self, ids: list[int]) -> np.ndarray:
        """Scores of the labels [tokens, labels] for one document."""
        epsilon = self.config["rms_norm_eps"]
        x = self.weights["model.embed_tokens.weight"][np.asarray(ids, dtype=np.int64)]
        positions = np.arange(len(ids), dtype=np.float32)
        angles = (positions[:, None] * self.frequencies)[:, None]
        cos, sin = np.cos(angles) * self.rope_factor, np.sin(angles) * self.rope_factor
        for i in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{i}"
            normed = rms_norm(x, self.weights[f"{name}.input_layernorm.weight"], epsilon)
            x = x + self._attention(normed, f"{name}.self_attn", cos, sin)
            normed = rms_norm(x, self.weights[f"{name}.post_attention_layernorm.weight"], epsilon)
            x = x + self._experts(normed, f"{name}.mlp")
        return self.linear(rms_norm(x, self.weights["model.norm.weight"], epsilon), "score")

    def log_probabilities(self, ids: list[int]) -> np.ndarray:
        logits = self.logits(ids)
        logits = logits - logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def _attention(self, x: np.ndarray, name: str, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        tokens, size = len(x), self.config["head_dim"]
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        query = rotate(self.linear(x, f"{name}.q_proj").reshape(tokens, heads, size), cos, sin) * size**-0.5
        key = rotate(self.linear(x, f"{name}.k_proj").reshape(tokens, kv_heads, size), cos, sin)
        value = self.linear(x, f"{name}.v_proj").reshape(tokens, kv_heads, size)
        positions = np.arange(tokens)
        outside = np.abs(positions[:, None] - positions) > self.config["sliding_window"]
        out = np.empty_like(query)
        for head in range(heads):
            group = head * kv_heads // heads
            scores = query[:, head] @ key[:, group].T
            scores[outside] = MASKED
            sink = self.weights[f"{name}.sinks"][head]
            largest = np.maximum(scores.max(-1, keepdims=True), sink)
            exponents = np.exp(scores - largest)
            total = exponents.sum(-1, keepdims=True) + np.exp(sink - largest)
            out[:, head] = (exponents / total) @ value[:, group]
        return self.linear(out.reshape(tokens, heads * size), f"{name}.o_proj")

    def _experts(self, x: np.ndarray, name: str) -> np.ndarray:
        router = self.linear(x, f"{name}.router")
        used = self.config["num_experts_per_tok"]
        best = np.argsort(-router, axis=-1, kind="stable")[:, :used]
        chosen = np.take_along_axis(router, best, -1)
        weights = np.exp(chosen - chosen.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        inner = self.config["intermediate_size"]
        out = np.zeros_like(x)
        for expert in range(self.config["num_local_experts"]):
            rows, slots = np.nonzero(best == expert)
            if len(rows) == 0:
                continue
            part = {key: self.weights[f"{name}.experts.{key}"][expert] for key in EXPERT_TENSORS}
            both = x[rows] @ part["gate_up_proj"] + part["gate_up_proj_bias"]
            gate, up = np.minimum(both[:, :inner], 7), np.clip(both[:, inner:], -7, 7)
            value = (up + 1) * gate * sigmoid(1.702 * gate)
            out[rows] += weights[rows, slots, None] * (value @ part["down_proj"] + part["down_proj_bias"])
        return out


EXPERT_TENSORS = ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias")
