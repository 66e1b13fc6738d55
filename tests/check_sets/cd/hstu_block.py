"""HSTU layer (hierarchical sequential transduction unit) for generative recommenders.

Pointwise aggregated attention as in Zhai et al. 2024 -- there is no softmax:

    U, V, Q, K = split(SiLU(W1 X))
    A          = SiLU(Q K^T + rab) / N          (N = length of the padded sequence)
    Y          = W2 (LayerNorm(A V) * U)

A is zeroed above the diagonal and for padded events.  The dot product is not
scaled.  ``rab`` is a bias per clipped distance i - j, shared by the heads.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HSTULayer(nn.Module):
    def __init__(self, dim=32, heads=2, d_qk=8, d_v=16, max_dist=20):
        super().__init__()
        self.heads, self.d_qk, self.d_v = heads, d_qk, d_v
        self.max_dist = max_dist
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Linear(dim, heads * (2 * d_v + 2 * d_qk))
        self.rab = nn.Parameter(torch.randn(max_dist + 1) * 0.02)
        self.norm_out = nn.LayerNorm(heads * d_v)
        self.w2 = nn.Linear(heads * d_v, dim)

    def forward(self, x, valid):
        """x: [B, N, dim], valid: [B, N] bool (True for an event)"""
        B, N, _ = x.shape
        h = F.silu(self.w1(self.norm(x)))
        u, v, q, k = h.split(
            [self.heads * self.d_v] * 2 + [self.heads * self.d_qk] * 2, dim=-1
        )
        v = v.view(B, N, self.heads, self.d_v)
        q = q.view(B, N, self.heads, self.d_qk)
        k = k.view(B, N, self.heads, self.d_qk)

        pos = torch.arange(N, device=x.device)
        dist = (pos[:, None] - pos[None, :]).clamp(0, self.max_dist)
        a = torch.einsum("bnhd,bmhd->bhnm", q, k) + self.rab[dist]
        a = F.silu(a) / N
        seen = (pos[None, :] <= pos[:, None]) & valid[:, None, :]
        a = a * seen[:, None].to(a.dtype)

        y = torch.einsum("bhnm,bmhd->bnhd", a, v).reshape(B, N, -1)
        return x + self.w2(self.norm_out(y) * u)


class HSTURanker(nn.Module):
    def __init__(self, n_items=500, dim=32, depth=2):
        super().__init__()
        self.items = nn.Embedding(n_items, dim, padding_idx=0)
        self.layers = nn.ModuleList([HSTULayer(dim) for _ in range(depth)])

    def forward(self, history, candidates):
        """history [B, N] (0 = padding), candidates [B, M] -> logits [B, M]"""
        valid = history != 0
        x = self.items(history)
        for layer in self.layers:
            x = layer(x, valid)
        last = (valid.sum(1) - 1).clamp(min=0)
        user = x[torch.arange(len(x), device=x.device), last]
        return torch.einsum("bd,bmd->bm", user, self.items(candidates))
