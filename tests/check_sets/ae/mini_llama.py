import argparse

import torch
import torch.nn.functional as F
from torch import nn


def get_args(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--n_heads", type=int, default=8)
    p.add_argument("--n_kv_heads", type=int, default=2)
    return p.parse_args(argv)


class GroupedAttention(nn.Module):
    """Grouped-query causal self-attention: n_heads // n_kv_heads query heads share one kv head."""

    def __init__(self, args):
        super().__init__()
        self.H, self.G = args.n_heads, args.n_kv_heads
        self.D = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.H * self.D, bias=False)
        self.wk = nn.Linear(args.dim, self.G * self.D, bias=False)
        self.wv = nn.Linear(args.dim, self.G * self.D, bias=False)
        self.wo = nn.Linear(self.H * self.D, args.dim, bias=False)

    def expand(self, t):
        B, _, S, _ = t.shape
        n_rep = self.H // self.G
        if n_rep == 1:
            return t
        return t.repeat_interleave(n_rep, dim=2).reshape(B, self.H, S, self.D)

    def forward(self, x):
        B, S, _ = x.shape
        q = self.wq(x).view(B, S, self.H, self.D).transpose(1, 2)
        k = self.wk(x).view(B, S, self.G, self.D).transpose(1, 2)
        v = self.wv(x).view(B, S, self.G, self.D).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, self.expand(k), self.expand(v), is_causal=True)
        return self.wo(o.transpose(1, 2).reshape(B, S, -1))
