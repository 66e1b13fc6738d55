"""Incremental multi-head attention for beam search (translation decoder).

CachedAttention.forward(x, state, parent=None)
    x       (N, dim)      newest token of each of the N = batch*beam hypotheses
    state   {} at the start; filled and updated here (that is how it is handed on)
    parent  (N,) int64 or None: before this step hypothesis n is a continuation of the old
            hypothesis parent[n], so its past tokens are those of parent[n]
Returns (N, dim).  Attends over the past tokens and the newest one, scale 1/sqrt(dim/heads).
"""
import torch
import torch.nn as nn


class CachedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def heads_of(self, t):
        return t.view(t.shape[0], self.heads, 1, self.hd)

    def forward(self, x, state, parent=None):
        q = self.heads_of(self.wq(x))
        k = self.heads_of(self.wk(x))
        v = self.heads_of(self.wv(x))
        if "k" in state:
            old_k, old_v = state["k"], state["v"]
            if parent is not None:
                old_k = old_k[parent]
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        state["k"], state["v"] = k, v

        p = torch.softmax(q @ k.transpose(2, 3) * self.hd ** -0.5, dim=-1)
        return self.wo((p @ v).reshape(x.shape))
