"""ProtBloom: a causal protein language model with ALiBi (Press et al., 2022).

No positional embeddings.  Head h of n (n a power of two) has the slope
2^(-8/n), 2^(-16/n), ... as in the paper; the bias of key j for query i is
-slope * (i - j).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

AMINO = "ACDEFGHIKLMNPQRSTVWY"
STOI = {a: i + 3 for i, a in enumerate(AMINO)}
PAD, BOS, EOS = 0, 1, 2


def encode(seq: str):
    return [BOS] + [STOI[a] for a in seq] + [EOS]


def alibi_slopes(n_heads: int) -> torch.Tensor:
    if n_heads & (n_heads - 1):
        raise ValueError("number of heads must be a power of two")
    h = torch.arange(n_heads, dtype=torch.float32)
    return torch.pow(2.0, -8.0 * h / n_heads)


class ProteinAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.dense = nn.Linear(dim, dim)
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def bias(self, n: int, device) -> torch.Tensor:
        pos = torch.arange(n, device=device)
        dist = (pos[:, None] - pos[None, :]).clamp(min=0)
        b = -self.slopes[:, None, None] * dist
        future = pos[None, :] > pos[:, None]
        return b.masked_fill(future, -math.inf)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = self.query_key_value(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.n_heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=self.bias(n, x.device).to(q.dtype),
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.dense(y.transpose(1, 2).reshape(b, n, d))


class ProtBloom(nn.Module):
    def __init__(self, dim=64, depth=2, heads=8):
        super().__init__()
        self.emb = nn.Embedding(len(AMINO) + 3, dim)
        self.emb_norm = nn.LayerNorm(dim)
        self.att = nn.ModuleList(ProteinAttention(dim, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.final = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.emb_norm(self.emb(ids))
        for n, a, m in zip(self.norms, self.att, self.mlp):
            x = x + a(n(x))
            x = x + m(x)
        return self.final(x) @ self.emb.weight.T
