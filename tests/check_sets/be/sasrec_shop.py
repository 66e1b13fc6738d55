"""Next-item model for the web shop (SASRec).

Sequences are left padded with item 0, e.g. [0, 0, 17, 4, 99].
A padded position sees only itself, so that no row is empty; its loss is ignored.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0


def build_visibility(seq: torch.Tensor) -> torch.Tensor:
    """True = may be looked at.  seq [B, L] -> [B, 1, L, L]"""
    L = seq.size(1)
    causal = torch.from_numpy(np.tri(L, dtype=bool)).to(seq.device)
    self_only = torch.eye(L, dtype=torch.bool, device=seq.device)
    real = (seq != PAD)[:, None, None, :]
    return (causal & real) | self_only


class SasAttention(nn.Module):
    def __init__(self, units: int, num_heads: int, rate: float):
        super().__init__()
        self.num_heads = num_heads
        self.rate = rate
        self.Q = nn.Linear(units, units)
        self.K = nn.Linear(units, units)
        self.V = nn.Linear(units, units)

    def forward(self, queries, keys, visible):
        B, L, U = queries.shape
        shape = (B, L, self.num_heads, U // self.num_heads)
        q = self.Q(queries).view(shape).transpose(1, 2)
        k = self.K(keys).view(shape).transpose(1, 2)
        v = self.V(keys).view(shape).transpose(1, 2)
        o = F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, dropout_p=self.rate if self.training else 0.0
        )
        return o.transpose(1, 2).reshape(B, L, U)


class SASRec(nn.Module):
    def __init__(self, n_items=500, maxlen=20, units=32, blocks=2, heads=2, rate=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, units, padding_idx=PAD)
        self.pos = nn.Embedding(maxlen, units)
        self.emb_drop = nn.Dropout(rate)
        self.att = nn.ModuleList(SasAttention(units, heads, rate) for _ in range(blocks))
        self.ln_q = nn.ModuleList(nn.LayerNorm(units) for _ in range(blocks))
        self.ln_f = nn.ModuleList(nn.LayerNorm(units) for _ in range(blocks))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Dropout(rate), nn.Linear(units, units))
            for _ in range(blocks)
        )
        self.last = nn.LayerNorm(units)

    def encode(self, seq):
        x = self.item(seq) * self.item.embedding_dim ** 0.5
        x = self.emb_drop(x + self.pos.weight[: seq.size(1)])
        vis = build_visibility(seq)
        for att, lq, lf, ffn in zip(self.att, self.ln_q, self.ln_f, self.ffn):
            x = x + att(lq(x), x, vis)
            x = x + ffn(lf(x))
        return self.last(x)

    def forward(self, seq, pos_items, neg_items):
        h = self.encode(seq)
        return (h * self.item(pos_items)).sum(-1), (h * self.item(neg_items)).sum(-1)

    @torch.no_grad()
    def recommend(self, seq, k=10):
        scores = self.encode(seq)[:, -1] @ self.item.weight.T
        scores[:, PAD] = -np.inf
        return scores.topk(k).indices
