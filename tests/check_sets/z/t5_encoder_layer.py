"""Self-contained T5 v1.1 encoder block, for loading the public checkpoints.

As in the original, the logits are not divided by sqrt(d_kv): the factor was folded into
the initialisation of the query projection.
"""
import math
from types import SimpleNamespace

import torch
import torch.nn as nn


def t5_config(**over):
    base = dict(d_model=48, d_kv=8, d_ff=96, num_heads=6, buckets=32, max_distance=128, eps=1e-6)
    base.update(over)
    return SimpleNamespace(**base)


class RMS(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        var = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(var + self.eps)).type_as(self.weight)


class T5EncoderAttention(nn.Module):
    """hidden (B, L, d_model); mask (B, L) with 1 = token, 0 = padding, or None.

    Returns (output, position_bias) so that later layers can reuse the bias of the first.
    """

    def __init__(self, cfg, has_relative_bias):
        super().__init__()
        inner = cfg.num_heads * cfg.d_kv
        self.cfg = cfg
        self.q = nn.Linear(cfg.d_model, inner, bias=False)
        self.k = nn.Linear(cfg.d_model, inner, bias=False)
        self.v = nn.Linear(cfg.d_model, inner, bias=False)
        self.o = nn.Linear(inner, cfg.d_model, bias=False)
        self.rel = nn.Embedding(cfg.buckets, cfg.num_heads) if has_relative_bias else None
        nn.init.normal_(self.q.weight, std=(cfg.d_model * cfg.d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=cfg.d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=cfg.d_model ** -0.5)

    def bucket(self, relative):
        """relative = key position - query position, both directions."""
        half = self.cfg.buckets // 2
        out = (relative > 0).long() * half
        n = relative.abs()
        exact = half // 2
        large = exact + (
            torch.log(n.float().clamp(min=1) / exact) / math.log(self.cfg.max_distance / exact) * (half - exact)
        ).long()
        large = large.clamp(max=half - 1)
        return out + torch.where(n < exact, n, large)

    def compute_bias(self, L, device):
        ctx = torch.arange(L, device=device)
        rel = ctx[None, :] - ctx[:, None]
        return self.rel(self.bucket(rel)).permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden, mask=None, position_bias=None):
        B, L, _ = hidden.shape
        H, D = self.cfg.num_heads, self.cfg.d_kv

        def shape(t):
            return t.view(B, L, H, D).transpose(1, 2)

        q, k, v = shape(self.q(hidden)), shape(self.k(hidden)), shape(self.v(hidden))
        if position_bias is None:
            if self.rel is None:
                position_bias = torch.zeros(1, H, L, L, dtype=hidden.dtype, device=hidden.device)
            else:
                position_bias = self.compute_bias(L, hidden.device)
            if mask is not None:
                drop = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * torch.finfo(hidden.dtype).min
                position_bias = position_bias + drop
        scores = torch.matmul(q, k.transpose(3, 2)) + position_bias
        probs = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        ctx = torch.matmul(probs, v).transpose(1, 2).contiguous().view(B, L, H * D)
        return self.o(ctx), position_bias


class T5EncoderBlock(nn.Module):
    def __init__(self, cfg, first):
        super().__init__()
        self.ln1 = RMS(cfg.d_model, cfg.eps)
        self.attn = T5EncoderAttention(cfg, first)
        self.ln2 = RMS(cfg.d_model, cfg.eps)
        self.wi_0 = nn.Linear(cfg.d_model, cfg.d_ff, bias=False)
        self.wi_1 = nn.Linear(cfg.d_model, cfg.d_ff, bias=False)
        self.wo = nn.Linear(cfg.d_ff, cfg.d_model, bias=False)

    def forward(self, x, mask=None, bias=None):
        a, bias = self.attn(self.ln1(x), mask, bias)
        x = x + a
        h = self.ln2(x)
        return x + self.wo(nn.functional.gelu(self.wi_0(h), approximate="tanh") * self.wi_1(h)), bias
