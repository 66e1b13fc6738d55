"""Attention of a small MoE decoder with learned sinks (gpt-oss layout).

* grouped key/value heads: query head h reads kv head h // (H // Hkv);
* rotary embedding, half-split;
* every query head owns a learned sink logit, which joins the softmax as one
  more column and is then dropped: the weights of a row sum to less than one;
* alternate layers have a sliding window: a token sees ``window`` positions
  including itself (None: all previous ones).
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class DecoderConfig:
    hidden: int = 48
    n_heads: int = 6
    n_kv: int = 2
    head_dim: int = 8
    window: Optional[int] = 4
    theta: float = 10_000.0


def rope(x, positions, theta):
    # x: [B, n, T, d]
    half = x.shape[-1] // 2
    inv = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = positions[:, None].float() * inv
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    lo, hi = x[..., :half], x[..., half:]
    return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], dim=-1)


class SinkAttention(nn.Module):
    def __init__(self, cfg: DecoderConfig = DecoderConfig()):
        super().__init__()
        self.cfg = cfg
        self.q_proj = nn.Linear(cfg.hidden, cfg.n_heads * cfg.head_dim)
        self.k_proj = nn.Linear(cfg.hidden, cfg.n_kv * cfg.head_dim)
        self.v_proj = nn.Linear(cfg.hidden, cfg.n_kv * cfg.head_dim)
        self.o_proj = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.hidden)
        self.sinks = nn.Parameter(torch.randn(cfg.n_heads))

    def visible(self, t, device):
        i = torch.arange(t, device=device)[:, None]
        j = torch.arange(t, device=device)[None, :]
        ok = j <= i
        if self.cfg.window is not None:
            ok = ok & (i - j < self.cfg.window)
        return ok

    def forward(self, x):
        c = self.cfg
        b, t, _ = x.shape
        pos = torch.arange(t, device=x.device)
        group = c.n_heads // c.n_kv
        q = self.q_proj(x).view(b, t, c.n_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, c.n_kv, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, c.n_kv, c.head_dim).transpose(1, 2)
        q, k = rope(q, pos, c.theta), rope(k, pos, c.theta)

        q = q.reshape(b, c.n_kv, group, t, c.head_dim)
        logits = torch.einsum("bngtd,bnsd->bngts", q, k) * c.head_dim ** -0.5
        logits = logits.masked_fill(~self.visible(t, x.device), float("-inf"))
        sink = self.sinks.view(1, c.n_kv, group, 1, 1).expand(b, -1, -1, t, 1)
        joint = torch.cat([logits, sink.to(logits.dtype)], dim=-1).float()
        weights = joint.softmax(dim=-1)[..., :-1].to(v.dtype)
        y = torch.einsum("bngts,bnsd->bngtd", weights, v)
        return self.o_proj(y.reshape(b, c.n_heads, t, c.head_dim).transpose(1, 2).flatten(2))
