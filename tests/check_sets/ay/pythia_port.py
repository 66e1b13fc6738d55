"""Minimal GPT-NeoX / Pythia inference in NumPy.

Checkpoint layout (taken over from the original training code)
---------------------------------------------------------------
attention.query_key_value.weight   [3 * hidden, hidden]
    rows are grouped per attention head: head 0 has head_dim rows for q, then
    head_dim rows for k, then head_dim rows for v; head 1 follows, ...
attention.query_key_value.bias     [3 * hidden], same grouping
attention.dense.{weight,bias}
mlp.dense_h_to_4h.*, mlp.dense_4h_to_h.*
input_layernorm.*, post_attention_layernorm.*

Rotary embedding covers the first ``rotary_pct`` of each head, rotate-half style.
"""
from dataclasses import dataclass
from typing import Dict, List

import numpy as np

Array = np.ndarray
Params = Dict[str, Array]


@dataclass(frozen=True)
class NeoXConfig:
    hidden_size: int = 512
    num_heads: int = 8
    num_layers: int = 6
    rotary_pct: float = 0.25
    rotary_base: float = 10000.0
    layer_norm_eps: float = 1e-5
    parallel_residual: bool = True

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def rotary_ndims(self) -> int:
        return int(self.head_dim * self.rotary_pct)


def _affine(x: Array, p: Params, name: str) -> Array:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def _layer_norm(x: Array, p: Params, name: str, eps: float) -> Array:
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def rotary_tables(seq_len: int, cfg: NeoXConfig):
    n = cfg.rotary_ndims
    inv_freq = cfg.rotary_base ** (-np.arange(0, n, 2, dtype=np.float64) / n)
    angles = np.outer(np.arange(seq_len), inv_freq)
    angles = np.concatenate([angles, angles], axis=-1)
    return np.cos(angles), np.sin(angles)


def rotate_half(x: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([-b, a], axis=-1)


def apply_rotary(x: Array, cos: Array, sin: Array) -> Array:
    n = cos.shape[-1]
    rot, rest = x[..., :n], x[..., n:]
    return np.concatenate([rot * cos + rotate_half(rot) * sin, rest], axis=-1)


def stable_softmax(x: Array) -> Array:
    z = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return z / np.sum(z, axis=-1, keepdims=True)


def neox_attention(x: Array, p: Params, prefix: str, cfg: NeoXConfig) -> Array:
    """Causal self-attention of one sequence, ``x`` is [seq, hidden]."""
    seq = x.shape[0]
    heads, dim = cfg.num_heads, cfg.head_dim

    qkv = _affine(x, p, f"{prefix}.query_key_value")
    qkv = qkv.reshape(seq, 3, heads, dim).transpose(1, 2, 0, 3)
    q, k, v = qkv                                           # each [heads, seq, dim]

    cos, sin = rotary_tables(seq, cfg)
    q = apply_rotary(q, cos, sin)
    k = apply_rotary(k, cos, sin)

    logits = np.einsum("hid,hjd->hij", q, k) / np.sqrt(dim)
    causal = np.tril(np.ones((seq, seq), dtype=bool))
    logits = np.where(causal, logits, -np.inf)
    out = np.einsum("hij,hjd->ihd", stable_softmax(logits), v)
    return _affine(out.reshape(seq, heads * dim), p, f"{prefix}.dense")


def neox_layer(x: Array, p: Params, i: int, cfg: NeoXConfig) -> Array:
    pre = f"layers.{i}"
    attn = neox_attention(_layer_norm(x, p, f"{pre}.input_layernorm", cfg.layer_norm_eps),
                          p, f"{pre}.attention", cfg)
    if cfg.parallel_residual:
        h = _layer_norm(x, p, f"{pre}.post_attention_layernorm", cfg.layer_norm_eps)
        ff = _affine(_gelu(_affine(h, p, f"{pre}.mlp.dense_h_to_4h")), p, f"{pre}.mlp.dense_4h_to_h")
        return x + attn + ff
    x = x + attn
    h = _layer_norm(x, p, f"{pre}.post_attention_layernorm", cfg.layer_norm_eps)
    return x + _affine(_gelu(_affine(h, p, f"{pre}.mlp.dense_h_to_4h")), p, f"{pre}.mlp.dense_4h_to_h")


def next_token_logits(ids: List[int], p: Params, cfg: NeoXConfig) -> Array:
    x = p["embed_in.weight"][np.asarray(ids)]
    for i in range(cfg.num_layers):
        x = neox_layer(x, p, i, cfg)
    x = _layer_norm(x, p, "final_layer_norm", cfg.layer_norm_eps)
    return x[-1] @ p["embed_out.weight"].T
