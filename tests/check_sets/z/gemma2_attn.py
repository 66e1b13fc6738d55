"""Gemma-2 attention for our 3M "nano" model: grouped queries, logit soft-capping (5 instead of
50, the logits of small models are small), alternating local and global layers."""
import enum

import torch
from torch import nn


class AttnType(enum.Enum):
    GLOBAL = 1
    LOCAL = 2


def soft_cap(t: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.tanh(t / cap) * cap


def apply_rope(x, positions, base=10_000):
    """x (B, L, H, D), positions (L,)"""
    half = x.shape[-1] // 2
    timescale = base ** (torch.arange(half, dtype=torch.float32, device=x.device) * 2 / x.shape[-1])
    ang = (positions[:, None].float() / timescale[None, :])[None, :, None, :]
    first, second = torch.split(x, half, dim=-1)
    sin, cos = torch.sin(ang), torch.cos(ang)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).type_as(x)


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1 + self.weight.float())).type_as(x)


class GemmaAttention(nn.Module):
    """hidden_states (B, L, C) -> (B, L, C); causal, and in LOCAL layers no further back than
    `window` tokens, the token itself included.

    query_pre_attn_scalar: the logits are divided by its square root (head_dim by default).
    """

    def __init__(
        self, hidden=32, heads=4, kv_heads=2, head_dim=12, attn_type=AttnType.GLOBAL,
        window=4, attn_logit_softcapping=5.0, query_pre_attn_scalar=None,
    ):
        super().__init__()
        assert heads % kv_heads == 0
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.scaling = (query_pre_attn_scalar or head_dim) ** -0.5
        self.cap, self.attn_type, self.window = attn_logit_softcapping, attn_type, window
        self.qkv_proj = nn.Linear(hidden, (heads + 2 * kv_heads) * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)

    def build_mask(self, L, device):
        i = torch.arange(L, device=device)
        hide = i[None, :] > i[:, None]
        if self.attn_type is AttnType.LOCAL:
            hide = hide | (i[None, :] <= i[:, None] - self.window)
        return torch.zeros(L, L, device=device).masked_fill(hide, -2.3819763e38)

    def forward(self, hidden_states):
        B, L, _ = hidden_states.shape
        D = self.head_dim
        q, k, v = self.qkv_proj(hidden_states).split([self.heads * D, self.kv_heads * D, self.kv_heads * D], dim=-1)
        pos = torch.arange(L, device=hidden_states.device)
        q = apply_rope(q.view(B, L, self.heads, D), pos) * self.scaling
        k = apply_rope(k.view(B, L, self.kv_heads, D), pos)
        v = v.view(B, L, self.kv_heads, D)
        rep = self.heads // self.kv_heads
        k, v = k.repeat_interleave(rep, dim=2), v.repeat_interleave(rep, dim=2)

        scores = torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1))
        scores = scores + self.build_mask(L, scores.device)
        if self.cap is not None:
            scores = soft_cap(scores, self.cap)
        probs = torch.softmax(scores.float(), dim=-1).type_as(q)
        out = torch.matmul(probs, v.transpose(1, 2))
        return self.o_proj(out.transpose(1, 2).reshape(B, L, -1))


class GemmaLayer(nn.Module):
    def __init__(self, hidden=32, **kw):
        super().__init__()
        self.pre, self.post = GemmaRMSNorm(hidden), GemmaRMSNorm(hidden)
        self.attn = GemmaAttention(hidden, **kw)
        self.pre_ff, self.post_ff = GemmaRMSNorm(hidden), GemmaRMSNorm(hidden)
        self.up, self.gate, self.down = nn.Linear(hidden, 64), nn.Linear(hidden, 64), nn.Linear(64, hidden)

    def forward(self, x):
        x = x + self.post(self.attn(self.pre(x)))
        h = self.pre_ff(x)
        return x + self.post_ff(self.down(nn.functional.gelu(self.gate(h), approximate="tanh") * self.up(h)))
