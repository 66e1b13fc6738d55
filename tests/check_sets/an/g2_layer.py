"""Decoder layer of our Gemma-2 port (odd layers local, even layers global)."""
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULTS = dict(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16, query_pre_attn_scalar=16,
                attn_logit_softcapping=50.0, sliding_window=4096, rope_theta=10000.0, eps=1e-6)


def make_config(**kw):
    bad = set(kw) - set(DEFAULTS)
    if bad:
        raise TypeError(f"unknown options {sorted(bad)}")
    return types.SimpleNamespace(**{**DEFAULTS, **kw})


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1 + self.weight.float())).type_as(x)


def rope_tables(positions, d, theta):
    inv = 1.0 / theta ** (torch.arange(0, d, 2).float() / d)
    a = positions.float()[..., None] * inv
    a = torch.cat([a, a], -1)
    return a.cos()[:, None], a.sin()[:, None]


def rot(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class G2Attention(nn.Module):
    """Causal. On local layers a token sees itself and the sliding_window - 1 tokens before it.

    attention_mask: (B, L), 1 = token, 0 = padding (left or right).
    """

    def __init__(self, cfg, layer_idx):
        super().__init__()
        self.cfg = cfg
        self.local = layer_idx % 2 == 1
        d = cfg.head_dim
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.num_heads * d, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, cfg.num_kv_heads * d, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, cfg.num_kv_heads * d, bias=False)
        self.o_proj = nn.Linear(cfg.num_heads * d, cfg.hidden_size, bias=False)

    def forward(self, x, positions, attention_mask=None):
        c = self.cfg
        B, L, _ = x.shape
        q = self.q_proj(x).view(B, L, c.num_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, L, c.num_kv_heads, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, L, c.num_kv_heads, c.head_dim).transpose(1, 2)
        cos, sin = rope_tables(positions, c.head_dim, c.rope_theta)
        q, k = rot(q, cos, sin), rot(k, cos, sin)
        g = c.num_heads // c.num_kv_heads
        k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)

        w = q @ k.transpose(2, 3) * c.query_pre_attn_scalar ** -0.5
        if c.attn_logit_softcapping is not None:
            w = c.attn_logit_softcapping * torch.tanh(w / c.attn_logit_softcapping)
        i = torch.arange(L, device=x.device)
        ok = i[None, :] <= i[:, None]
        if self.local:
            ok = ok & (i[:, None] - i[None, :] < c.sliding_window)
        ok = ok[None, None]
        if attention_mask is not None:
            ok = ok & attention_mask[:, None, None, :].bool()
        w = w.masked_fill(~ok, torch.finfo(w.dtype).min)
        w = F.softmax(w, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.o_proj((w @ v).transpose(1, 2).reshape(B, L, -1))


class G2Layer(nn.Module):
    def __init__(self, cfg, layer_idx):
        super().__init__()
        h = cfg.hidden_size
        self.attn = G2Attention(cfg, layer_idx)
        self.pre1, self.post1, self.pre2, self.post2 = (Norm(h, cfg.eps) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x, positions, attention_mask=None):
        x = x + self.post1(self.attn(self.pre1(x), positions, attention_mask))
        y = self.pre2(x)
        y = self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y))
        return x + self.post2(y)
