"""Self-Attentive Sequential Recommendation (Kang & McAuley, ICDM'18), small re-implementation.

log_seqs are LEFT padded with item id 0:  [0, 0, 0, 17, 4, 291]
"""
import numpy as np
import torch
import torch.nn as nn


def pad_left(seq, maxlen):
    out = np.zeros(maxlen, dtype=np.int64)
    tail = seq[-maxlen:]
    if len(tail):
        out[-len(tail):] = tail
    return out


class PointWiseFFN(nn.Module):
    def __init__(self, hidden, p):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(hidden, hidden, 1), nn.Conv1d(hidden, hidden, 1)
        self.d1, self.d2 = nn.Dropout(p), nn.Dropout(p)

    def forward(self, x):
        y = self.d2(self.c2(torch.relu(self.d1(self.c1(x.transpose(-1, -2))))))
        return y.transpose(-1, -2) + x


class CausalItemAttention(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.nh, self.hd = heads, hidden // heads
        self.Wq, self.Wk, self.Wv = (nn.Linear(hidden, hidden) for _ in range(3))
        self.p = nn.Dropout(p)

    def forward(self, queries, keys, padding):
        """padding [B, T] is True where the item id is 0."""
        B, T, D = queries.shape
        q = self.Wq(queries).view(B, T, self.nh, self.hd)
        k = self.Wk(keys).view(B, T, self.nh, self.hd)
        v = self.Wv(keys).view(B, T, self.nh, self.hd)
        sim = torch.einsum("bihd,bjhd->bhij", q, k) / self.hd ** 0.5
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
        forbid = future[None, None] | padding[:, None, None, :]
        sim = sim.masked_fill(forbid, torch.finfo(sim.dtype).min)
        w = sim.softmax(-1)
        out = torch.einsum("bhij,bjhd->bihd", self.p(w), v)
        return out.reshape(B, T, D)


class SASRec(nn.Module):
    def __init__(self, n_items, maxlen=50, hidden=64, blocks=2, heads=1, p=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden)
        self.drop = nn.Dropout(p)
        self.ln1 = nn.ModuleList([nn.LayerNorm(hidden, eps=1e-8) for _ in range(blocks)])
        self.att = nn.ModuleList([CausalItemAttention(hidden, heads, p) for _ in range(blocks)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(hidden, eps=1e-8) for _ in range(blocks)])
        self.ffn = nn.ModuleList([PointWiseFFN(hidden, p) for _ in range(blocks)])
        self.last = nn.LayerNorm(hidden, eps=1e-8)

    def log2feats(self, log_seqs):
        x = self.item_emb(log_seqs) * self.item_emb.embedding_dim ** 0.5
        x = self.drop(x + self.pos_emb.weight[: log_seqs.size(1)])
        pad = log_seqs.eq(0)
        x = x * (~pad).unsqueeze(-1)
        for ln1, att, ln2, ffn in zip(self.ln1, self.att, self.ln2, self.ffn):
            q = ln1(x)
            x = q + att(q, x, pad)
            x = ffn(ln2(x))
            x = x * (~pad).unsqueeze(-1)
        return self.last(x)

    def forward(self, log_seqs, pos, neg):
        f = self.log2feats(log_seqs)
        return (f * self.item_emb(pos)).sum(-1), (f * self.item_emb(neg)).sum(-1)

    @torch.no_grad()
    def predict(self, log_seqs, candidates):
        f = self.log2feats(log_seqs)[:, -1]
        return (self.item_emb(candidates) @ f.unsqueeze(-1)).squeeze(-1)
