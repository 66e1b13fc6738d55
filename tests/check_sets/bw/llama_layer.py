"""Llama 3 style decoder layer with a growing KV cache (single file, no deps).

Weight names follow the HF checkpoint (q_proj, k_proj, ...), hence the rotary
pairs are (i, i + head_dim/2) and query head h reads kv head
h // (n_heads // n_kv_heads).
"""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KV = Tuple[Tensor, Tensor]


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        var = x.float().pow(2).mean(-1, keepdim=True)
        return (x.float() * torch.rsqrt(var + self.eps)).type_as(x) * self.weight


def rope(x: Tensor, pos: Tensor, theta: float) -> Tensor:
    """x: [B, H, L, d], pos: [L] absolute positions."""
    d = x.shape[-1]
    freq = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos.float()[:, None] * freq[None, :]
    ang = torch.cat((ang, ang), dim=-1)
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    rot = torch.cat((-x2, x1), dim=-1)
    return (x * ang.cos() + rot * ang.sin()).type_as(x)


class DecoderLayer(nn.Module):
    def __init__(self, dim: int = 32, n_heads: int = 4, n_kv_heads: int = 2,
                 hidden: int = 64, theta: float = 500000.0) -> None:
        super().__init__()
        self.h, self.hkv, self.theta = n_heads, n_kv_heads, theta
        self.d = dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.d, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.d, bias=False)
        self.o_proj = nn.Linear(n_heads * self.d, dim, bias=False)
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.input_layernorm = RMSNorm(dim)
        self.post_attention_layernorm = RMSNorm(dim)

    def self_attn(self, x: Tensor, past: Optional[KV]) -> Tuple[Tensor, KV]:
        b, n, _ = x.shape
        start = 0 if past is None else past[0].shape[2]
        pos = torch.arange(start, start + n, device=x.device)

        q = self.q_proj(x).view(b, n, self.h, self.d).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.hkv, self.d).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.hkv, self.d).transpose(1, 2)
        q, k = rope(q, pos, self.theta), rope(k, pos, self.theta)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        cache = (k, v)

        rep = self.h // self.hkv
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        keys = torch.arange(start + n, device=x.device)
        visible = keys[None, :] <= pos[:, None]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1)), cache

    def forward(self, x: Tensor, past: Optional[KV] = None) -> Tuple[Tensor, KV]:
        att, cache = self.self_attn(self.input_layernorm(x), past)
        x = x + att
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y)), cache


if __name__ == "__main__":
    layer = DecoderLayer().eval()
    hidden = torch.randn(1, 6, 32)
    out, cache = layer(hidden[:, :4])
    out, cache = layer(hidden[:, 4:], cache)
    print(out.shape, cache[0].shape)
