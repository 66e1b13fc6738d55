"""SASRec: self-attentive sequential recommendation. Item id 0 is padding (left)."""
import numpy as np
import torch
import torch.nn as nn


def sample_negative(seen, n_items, rng):
    while True:
        t = int(rng.integers(1, n_items + 1))
        if t not in seen:
            return t


def left_pad(seq, maxlen):
    out = np.zeros(maxlen, dtype=np.int64)
    seq = seq[-maxlen:]
    if len(seq):
        out[-len(seq):] = seq
    return out


class MultiHead(nn.Module):
    """TF-style heads: the channels are cut in pieces which are stacked on the batch axis.

    key_real (N, T): True for items, False for padding. Keys that are padding or
    lie in the future are not attended.
    """

    def __init__(self, units, num_heads, dropout):
        super().__init__()
        self.Q = nn.Linear(units, units)
        self.K = nn.Linear(units, units)
        self.V = nn.Linear(units, units)
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, key_real):
        h = self.num_heads
        Q_ = torch.cat(self.Q(queries).chunk(h, dim=2), dim=0)   # (h*N, T, C/h)
        K_ = torch.cat(self.K(keys).chunk(h, dim=2), dim=0)
        V_ = torch.cat(self.V(keys).chunk(h, dim=2), dim=0)

        out = torch.bmm(Q_, K_.transpose(1, 2)) / (K_.size(-1) ** 0.5)
        km = key_real.repeat_interleave(h, dim=0)                # (h*N, T)
        out = out.masked_fill(~km.unsqueeze(1), -2.0 ** 31)
        T = out.size(-1)
        future = torch.ones(T, T, dtype=torch.bool, device=out.device).triu(1)
        out = out.masked_fill(future, -2.0 ** 31)

        out = self.dropout(out.softmax(-1))
        out = torch.bmm(out, V_)
        return torch.cat(out.chunk(h, dim=0), dim=2)


class PointWise(nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return x + self.drop(self.b(self.drop(torch.relu(self.a(x)))))


class SASRec(nn.Module):
    def __init__(self, n_items, maxlen=50, d=48, blocks=2, heads=2, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.pos = nn.Embedding(maxlen, d)
        self.drop = nn.Dropout(p)
        self.n1 = nn.ModuleList(nn.LayerNorm(d) for _ in range(blocks))
        self.n2 = nn.ModuleList(nn.LayerNorm(d) for _ in range(blocks))
        self.att = nn.ModuleList(MultiHead(d, heads, p) for _ in range(blocks))
        self.ffn = nn.ModuleList(PointWise(d, p) for _ in range(blocks))
        self.last = nn.LayerNorm(d)

    def log2feats(self, seqs):
        real = seqs != 0
        x = self.item(seqs) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.pos.weight[:seqs.size(1)])
        x = x * real.unsqueeze(-1)
        for n1, att, n2, ffn in zip(self.n1, self.att, self.n2, self.ffn):
            q = n1(x)
            x = q + att(q, x, real)
            x = ffn(n2(x)) * real.unsqueeze(-1)
        return self.last(x)

    def forward(self, seqs, pos, neg):
        f = self.log2feats(seqs)
        return (f * self.item(pos)).sum(-1), (f * self.item(neg)).sum(-1)

    def predict(self, seqs, candidates):
        f = self.log2feats(seqs)[:, -1]
        return torch.einsum("nd,ncd->nc", f, self.item(candidates))
