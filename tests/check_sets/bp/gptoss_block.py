"""Small re-implementation of the gpt-oss decoder block (attention half only).

Every second layer uses a sliding window.  Each query head owns one learned
"sink" logit which takes part in the softmax but carries no value, so a head can
decide to look at nothing.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class OssConfig:
    hidden_size: int = 64
    head_dim: int = 16
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    # a token sees itself and the (sliding_window - 1) tokens before it; 0 = full causal
    sliding_window: int = 4
    rope_theta: float = 150000.0
    rms_eps: float = 1e-5


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        t, dtype = x.float(), x.dtype
        t = t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + self.eps)
        return (t * self.scale).to(dtype)


def _rotate(x, cos, sin):
    # x: [B, T, H, D], first half / second half layout
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def sink_sdpa(Q, K, V, S, sm_scale, sliding_window=0):
    # Q [b, t, h_kv, q_mult, d]   K, V [b, t, h_kv, d]   S [h_kv * q_mult]
    b, n_tokens, n_heads, q_mult, d_head = Q.shape
    K = K[:, :, :, None, :].expand(-1, -1, -1, q_mult, -1)
    V = V[:, :, :, None, :].expand(-1, -1, -1, q_mult, -1)
    S = S.reshape(1, n_heads, q_mult, 1, 1).expand(b, -1, -1, n_tokens, -1)
    mask = torch.triu(Q.new_full((n_tokens, n_tokens), -float("inf")), diagonal=1)
    if sliding_window > 0:
        mask = mask + torch.tril(
            mask.new_full((n_tokens, n_tokens), -float("inf")), diagonal=-sliding_window
        )
    QK = torch.einsum("bqhmd,bkhmd->bhmqk", Q, K)
    QK = QK * sm_scale
    QK = QK + mask
    QK = torch.cat([QK, S.to(QK.dtype)], dim=-1)
    W = torch.softmax(QK, dim=-1)
    W = W[..., :-1]
    attn = torch.einsum("bhmqk,bkhmd->bqhmd", W, V)
    return attn.reshape(b, n_tokens, -1)


class OssAttentionBlock(nn.Module):
    """x: [B, T, hidden_size] -> x + attention(norm(x)).  Causal."""

    def __init__(self, config: OssConfig, layer_idx: int = 0):
        super().__init__()
        self.config = config
        self.window = config.sliding_window if layer_idx % 2 == 0 else 0
        h, g, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.sinks = nn.Parameter(torch.randn(h))
        self.norm = RMSNorm(config.hidden_size, config.rms_eps)
        self.qkv = nn.Linear(config.hidden_size, (h + 2 * g) * d)
        self.out = nn.Linear(h * d, config.hidden_size)
        self.sm_scale = 1 / math.sqrt(d)

    def _cos_sin(self, T, device):
        d = self.config.head_dim
        freq = self.config.rope_theta ** (-torch.arange(0, d, 2, device=device).float() / d)
        ang = torch.arange(T, device=device).float()[:, None] * freq[None]
        return ang.cos()[None, :, None], ang.sin()[None, :, None]

    def forward(self, x):
        c = self.config
        B, T, _ = x.shape
        h, g, d = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        qkv = self.qkv(self.norm(x))
        q, k, v = qkv.split([h * d, g * d, g * d], dim=-1)
        cos, sin = self._cos_sin(T, x.device)
        q = _rotate(q.view(B, T, h, d), cos, sin).to(x.dtype)
        k = _rotate(k.view(B, T, g, d), cos, sin).to(x.dtype)
        v = v.view(B, T, g, d)
        q = q.view(B, T, g, h // g, d)
        t = sink_sdpa(q, k, v, self.sinks, self.sm_scale, self.window)
        return x + self.out(t)
