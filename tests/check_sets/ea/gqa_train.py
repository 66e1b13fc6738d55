"""Grouped-query attention for my 100M parameter LM (pretraining, no cache).

x: (B, T, dim) -> (B, T, dim), causal (a token sees itself and the tokens before it).

n_heads query heads share n_kv key/value heads; with n_rep = n_heads // n_kv, the query heads
0 .. n_rep-1 use kv head 0, the next n_rep use kv head 1, ... (LLaMA-2 70B).
Positions are added outside of this module.
"""
import torch.nn as nn
import torch.nn.functional as F


class GQA(nn.Module):
    def __init__(self, dim, n_heads, n_kv):
        super().__init__()
        assert n_heads % n_kv == 0
        self.n_heads, self.n_kv, self.n_rep = n_heads, n_kv, n_heads // n_kv
        self.hd = dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.n_heads, self.hd)
        k = self.k_proj(x).view(B, T, self.n_kv, self.hd)
        v = self.v_proj(x).view(B, T, self.n_kv, self.hd)
        if self.n_rep > 1:
            k = k.repeat(1, self.n_rep, 1, 1).view(B, T, self.n_heads, self.hd)
            v = v.repeat(1, self.n_rep, 1, 1).view(B, T, self.n_heads, self.hd)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).contiguous().view(B, T, C))
