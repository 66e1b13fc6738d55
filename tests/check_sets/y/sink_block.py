"""Attention block with per-head sink logits and an alternating sliding window.

`sliding_window` counts the token itself: a query at t sees t-sliding_window+1 .. t.
0 switches the window off (odd layers).
"""
import math
from dataclasses import dataclass

import torch


@dataclass
class ModelConfig:
    hidden_size: int = 40
    head_dim: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    sliding_window: int = 4
    rope_theta: float = 150000.0


def _rotate(x, cos, sin):
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    x1, x2 = torch.chunk(x, 2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


class Rotary(torch.nn.Module):
    def __init__(self, head_dim, base):
        super().__init__()
        self.d, self.base = head_dim, base

    def forward(self, q, k):
        # q (n, h, m, d)   k (n, h, d)
        n = q.shape[0]
        inv = 1.0 / self.base ** (torch.arange(0, self.d, 2, dtype=torch.float, device=q.device) / self.d)
        f = torch.arange(n, dtype=torch.float, device=q.device)[:, None] * inv[None]
        c, s = f.cos(), f.sin()
        qq = _rotate(q.reshape(n, -1, self.d), c, s).reshape(q.shape)
        return qq, _rotate(k, c, s)


def sdpa(Q, K, V, S, sm_scale, sliding_window=0):
    # one sequence, no batch axis
    n, nh, qm, d = Q.shape
    K = K[:, :, None, :].expand(-1, -1, qm, -1)
    V = V[:, :, None, :].expand(-1, -1, qm, -1)
    S = S.reshape(nh, qm, 1, 1).expand(-1, -1, n, -1)
    mask = torch.triu(Q.new_full((n, n), -float("inf")), diagonal=1)
    if sliding_window > 0:
        mask += torch.tril(mask.new_full((n, n), -float("inf")), diagonal=-sliding_window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K)
    QK *= sm_scale
    QK += mask[None, None]
    QK = torch.cat([QK, S], dim=-1)
    W = torch.softmax(QK, dim=-1)
    W = W[..., :-1]
    attn = torch.einsum("hmqk,khmd->qhmd", W, V)
    return attn.reshape(n, -1)


class SinkAttention(torch.nn.Module):
    def __init__(self, config: ModelConfig = None, layer_idx: int = 0):
        super().__init__()
        config = config or ModelConfig()
        self.hd = config.head_dim
        self.nq = config.num_attention_heads
        self.nkv = config.num_key_value_heads
        self.window = config.sliding_window if layer_idx % 2 == 0 else 0
        self.sinks = torch.nn.Parameter(torch.randn(self.nq))
        self.norm = torch.nn.RMSNorm(config.hidden_size)
        self.qkv = torch.nn.Linear(config.hidden_size, self.hd * (self.nq + 2 * self.nkv))
        self.out = torch.nn.Linear(self.hd * self.nq, config.hidden_size)
        self.rope = Rotary(self.hd, config.rope_theta)

    def forward(self, x):
        """x (n_tokens, hidden_size), residual included"""
        t = self.qkv(self.norm(x))
        q, k, v = t.split([self.nq * self.hd, self.nkv * self.hd, self.nkv * self.hd], dim=-1)
        q = q.reshape(-1, self.nkv, self.nq // self.nkv, self.hd)
        k = k.reshape(-1, self.nkv, self.hd)
        v = v.reshape(-1, self.nkv, self.hd)
        q, k = self.rope(q, k)
        return x + self.out(sdpa(q, k, v, self.sinks, 1 / math.sqrt(self.hd), self.window))
