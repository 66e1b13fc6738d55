"""Hybrid stack: selective state-space layers with an attention layer now and then.

The attention layers have no position encoding (the SSM layers carry the order) and use
grouped queries: consecutive query heads share a kv head.
"""
from dataclasses import asdict, dataclass
from typing import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class HybridArgs:
    d_model: int = 48
    n_layers: int = 4
    attn_every: int = 4
    attn_offset: int = 2
    n_heads: int = 6
    n_kv_heads: int = 2
    d_state: int = 8
    expand: int = 2

    def kinds(self) -> Iterator[str]:
        for i in range(self.n_layers):
            yield "attn" if i % self.attn_every == self.attn_offset else "mamba"


class MambaMixer(nn.Module):
    def __init__(self, d_model, d_state, expand, **_):
        super().__init__()
        self.d_inner, self.d_state = expand * d_model, d_state
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner, bias=False)
        self.x_proj = nn.Linear(self.d_inner, 2 * d_state + 1, bias=False)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, d_state + 1).float()).repeat(self.d_inner, 1))
        self.D = nn.Parameter(torch.ones(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def forward(self, u):
        x, z = self.in_proj(u).chunk(2, -1)
        x = F.silu(x)
        dt, B, C = self.x_proj(x).split([1, self.d_state, self.d_state], -1)
        dt, A = F.softplus(dt), -self.A_log.exp()
        h, ys = x.new_zeros(x.shape[0], self.d_inner, self.d_state), []
        for t in range(x.shape[1]):
            h = torch.exp(dt[:, t, :, None] * A) * h + (dt[:, t] * x[:, t])[..., None] * B[:, t, None, :]
            ys.append((h * C[:, t, None, :]).sum(-1))
        y = torch.stack(ys, 1) + self.D * x
        return self.out_proj(y * F.silu(z))


class AttentionMixer(nn.Module):
    """Causal. Tensors stay in [batch, length, heads, head_dim] until the product."""

    def __init__(self, d_model, n_heads, n_kv_heads, **_):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = d_model // n_heads
        self.q_proj = nn.Linear(d_model, n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * self.head_dim, d_model, bias=False)

    def _expand_kv(self, t):
        B, L, _, d = t.shape
        reps = self.n_heads // self.n_kv_heads
        return t.repeat(1, reps, 1, 1).view(B, L, self.n_heads, d)

    def forward(self, u):
        B, L, _ = u.shape
        q = self.q_proj(u).view(B, L, self.n_heads, self.head_dim)
        k = self._expand_kv(self.k_proj(u).view(B, L, self.n_kv_heads, self.head_dim))
        v = self._expand_kv(self.v_proj(u).view(B, L, self.n_kv_heads, self.head_dim))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, L, -1))


MIXERS = {"mamba": MambaMixer, "attn": AttentionMixer}


class HybridLM(nn.Module):
    def __init__(self, args: HybridArgs, vocab=256):
        super().__init__()
        kw = asdict(args)
        self.embed = nn.Embedding(vocab, args.d_model)
        self.mixers = nn.ModuleList(MIXERS[kind](**kw) for kind in args.kinds())
        self.norms = nn.ModuleList(nn.RMSNorm(args.d_model) for _ in range(args.n_layers))
        self.final = nn.RMSNorm(args.d_model)

    def forward(self, ids):
        x = self.embed(ids)
        for norm, mix in zip(self.norms, self.mixers):
            x = x + mix(norm(x))
        return self.final(x) @ self.embed.weight.T
