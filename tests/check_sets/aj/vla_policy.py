"""Small vision-language-action policy. The action expert reads the prefix (image patches,
instruction tokens, proprioception) with grouped-query attention; layout is [B, L, heads, dim]
all the way, like in the JAX original.
"""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class PolicyArgs:
    width: int = 128
    q_heads: int = 8
    kv_heads: int = 2
    head_dim: int = 16
    depth: int = 3
    horizon: int = 10
    dof: int = 7


def expand_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """[B, L, kv_heads, dim] -> [B, L, kv_heads * n_rep, dim]; kv head g serves the query heads
    g * n_rep ... (g + 1) * n_rep - 1"""
    if n_rep == 1:
        return x
    b, l, g, d = x.shape
    x = x[:, None, :, :, :].expand(b, n_rep, l, g, d)
    return x.reshape(b, l, g * n_rep, d)


class PrefixCrossAttention(nn.Module):
    def __init__(self, args: PolicyArgs):
        super().__init__()
        self.nq, self.nkv, self.hd = args.q_heads, args.kv_heads, args.head_dim
        self.q_proj = nn.Linear(args.width, self.nq * self.hd, bias=False)
        self.k_proj = nn.Linear(args.width, self.nkv * self.hd, bias=False)
        self.v_proj = nn.Linear(args.width, self.nkv * self.hd, bias=False)
        self.o_proj = nn.Linear(self.nq * self.hd, args.width, bias=False)

    def forward(self, x, prefix, prefix_ok: Optional[torch.Tensor] = None):
        """x [B, T, W] action tokens, prefix [B, L, W], prefix_ok bool [B, L] True = use it"""
        B, T, _ = x.shape
        L = prefix.shape[1]
        q = self.q_proj(x).view(B, T, self.nq, self.hd)
        k = self.k_proj(prefix).view(B, L, self.nkv, self.hd)
        v = self.v_proj(prefix).view(B, L, self.nkv, self.hd)
        k = expand_kv(k, self.nq // self.nkv)
        v = expand_kv(v, self.nq // self.nkv)

        logits = torch.einsum("bthd,blhd->bhtl", q, k).float() * self.hd ** -0.5
        if prefix_ok is not None:
            logits = logits.masked_fill(~prefix_ok[:, None, None, :], torch.finfo(torch.float32).min)
        probs = F.softmax(logits, dim=-1).to(v.dtype)
        out = torch.einsum("bhtl,blhd->bthd", probs, v)
        return self.o_proj(out.reshape(B, T, self.nq * self.hd))


class ExpertLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(args.width), nn.RMSNorm(args.width)
        self.cross = PrefixCrossAttention(args)
        self.gate = nn.Linear(args.width, 3 * args.width, bias=False)
        self.up = nn.Linear(args.width, 3 * args.width, bias=False)
        self.down = nn.Linear(3 * args.width, args.width, bias=False)

    def forward(self, x, prefix, ok):
        x = x + self.cross(self.n1(x), prefix, ok)
        h = self.n2(x)
        return x + self.down(F.gelu(self.gate(h)) * self.up(h))


def time_embedding(t, width, lo=4e-3, hi=4.0):
    f = lo * (hi / lo) ** torch.linspace(0, 1, width // 2, device=t.device)
    ang = t[:, None] * (2 * torch.pi / f)[None]
    return torch.cat([ang.sin(), ang.cos()], -1)


class FlowActionExpert(nn.Module):
    """velocity field v(a_t, t | prefix), integrated with Euler steps"""

    def __init__(self, args: PolicyArgs):
        super().__init__()
        self.args = args
        self.inp = nn.Linear(args.dof, args.width)
        self.time = nn.Sequential(nn.Linear(args.width, args.width), nn.SiLU(), nn.Linear(args.width, args.width))
        self.slot = nn.Parameter(torch.randn(args.horizon, args.width) * 0.02)
        self.layers = nn.ModuleList([ExpertLayer(args) for _ in range(args.depth)])
        self.out = nn.Linear(args.width, args.dof)

    def forward(self, noisy, t, prefix, prefix_ok=None):
        x = self.inp(noisy) + self.slot + self.time(time_embedding(t, self.args.width))[:, None]
        for layer in self.layers:
            x = layer(x, prefix, prefix_ok)
        return self.out(x)

    @torch.no_grad()
    def sample(self, prefix, prefix_ok=None, steps=10):
        a = torch.randn(prefix.size(0), self.args.horizon, self.args.dof, device=prefix.device)
        for i in range(steps):
            t = torch.full((prefix.size(0),), i / steps, device=prefix.device)
            a = a + self(a, t, prefix, prefix_ok) / steps
        return a
