"""Minimal port of a Qwen3-style attention layer (no transformers dependency).

Weights are loaded from the HF state dict unchanged, hence the half-split
("rotate_half") rotary layout. Q and K are RMS-normalised per head before rope.
"""
import dataclasses
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn, Tensor


@dataclasses.dataclass
class QwenConfig:
    hidden_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 12          # not hidden_size // num_attention_heads in this family!
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1_000_000.0


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)


def rotate_half(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Qwen3Attention(nn.Module):
    """forward(x [B,T,C], past) -> (y [B,T,C], (k, v)). Causal."""

    def __init__(self, cfg: QwenConfig):
        super().__init__()
        self.cfg = cfg
        H, G, D = cfg.num_attention_heads, cfg.num_key_value_heads, cfg.head_dim
        self.q_proj = nn.Linear(cfg.hidden_size, H * D, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, G * D, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, G * D, bias=False)
        self.o_proj = nn.Linear(H * D, cfg.hidden_size, bias=False)
        self.q_norm = RMSNorm(D, cfg.rms_norm_eps)
        self.k_norm = RMSNorm(D, cfg.rms_norm_eps)
        inv = cfg.rope_theta ** (-torch.arange(0, D, 2).float() / D)
        self.register_buffer("inv_freq", inv, persistent=False)

    def _rope(self, x: Tensor, start: int) -> Tensor:
        pos = torch.arange(start, start + x.shape[2], device=x.device).float()
        ang = torch.outer(pos, self.inv_freq)
        ang = torch.cat((ang, ang), dim=-1)
        return (x.float() * ang.cos() + rotate_half(x.float()) * ang.sin()).to(x.dtype)

    def forward(self, x: Tensor, past: Optional[Tuple[Tensor, Tensor]] = None):
        B, T, _ = x.shape
        D = self.cfg.head_dim
        start = 0 if past is None else past[0].shape[2]
        q = self.q_norm(self.q_proj(x).view(B, T, -1, D)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(B, T, -1, D)).transpose(1, 2)
        v = self.v_proj(x).view(B, T, -1, D).transpose(1, 2)
        q, k = self._rope(q, start), self._rope(k, start)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        present = (k, v)
        g = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(g, dim=1), v.repeat_interleave(g, dim=1)
        S = k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1)), present
