"""Contact prediction from alignments: numpy reads and weights the alignment, torch does the axial attention."""
import io
import math
import re

import numpy as np
import torch
import torch.nn as nn

ALPHABET = "-ACDEFGHIKLMNPQRSTVWYX"
GAP = 0


# ----- numpy side -------------------------------------------------------------

def read_a3m(handle):
    seqs, cur = [], []
    for line in handle:
        if line.startswith(">"):
            if cur:
                seqs.append("".join(cur))
            cur = []
        else:
            cur.append(re.sub("[a-z]", "", line.strip()))
    return seqs + ["".join(cur)] if cur else seqs


def tokenise(seqs):
    return np.array([[max(ALPHABET.find(c), 0) for c in s] for s in seqs], dtype=np.int64)


def henikoff(tokens):
    """position based sequence weights, sum = 1"""
    w = np.zeros(len(tokens))
    for col in tokens.T:
        vals, inv, cnt = np.unique(col, return_inverse=True, return_counts=True)
        w += 1.0 / (len(vals) * cnt[inv])
    return w / w.sum()


def subsample(tokens, n, seed=0):
    if len(tokens) <= n:
        return tokens
    p = henikoff(tokens)[1:]
    pick = np.random.default_rng(seed).choice(len(p), n - 1, replace=False, p=p / p.sum())
    return np.concatenate([tokens[:1], tokens[1 + np.sort(pick)]])


# ----- torch side -------------------------------------------------------------

class TiedRowAttention(nn.Module):
    """MSA-Transformer row attention: one map per head, shared by all R sequences.

    The logits of the rows are added up and scaled by 1/sqrt(R * d) ("square root
    normalisation"), so that their size does not depend on the depth R.
    x [B, R, C, D] -> y [B, R, C, D], maps [B, H, C, C];  pad [B, R, C], True = padding:
    a padded cell gives no logits, a column padded in the first row is no key.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, pad=None):
        B, R, C, _ = x.shape
        q, k, v = (f(x).view(B, R, C, self.h, self.d) for f in (self.q, self.k, self.v))
        q = q / math.sqrt(self.d * R)
        if pad is not None:
            q = q * (~pad)[..., None, None].to(q.dtype)
        s = torch.einsum("brihd,brjhd->bhij", q, k)
        if pad is not None:
            s = s.masked_fill(pad[:, 0][:, None, None, :], torch.finfo(s.dtype).min)
        p = s.softmax(-1)
        y = torch.einsum("bhij,brjhd->brihd", p, v)
        return self.o(y.reshape(B, R, C, -1)), p


class ColumnMix(nn.Module):
    """cheap stand-in for column attention: gated mean over the sequences"""

    def __init__(self, dim):
        super().__init__()
        self.g, self.m = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        return torch.sigmoid(self.g(x)) * self.m(x).mean(1, keepdim=True)


class ContactNet(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(len(ALPHABET), dim)
        self.rows = nn.ModuleList(TiedRowAttention(dim, heads) for _ in range(depth))
        self.cols = nn.ModuleList(ColumnMix(dim) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.logit = nn.Linear(depth * heads, 1)

    def forward(self, tokens, pad=None):
        x, maps = self.emb(tokens), []
        for i, (r, c) in enumerate(zip(self.rows, self.cols)):
            y, p = r(self.norm[2 * i](x), pad)
            x = x + y
            x = x + c(self.norm[2 * i + 1](x))
            maps.append(p)
        f = torch.cat(maps, 1)
        f = f + f.transpose(-1, -2)
        apc = f.sum(-1, keepdim=True) * f.sum(-2, keepdim=True) / f.sum((-1, -2), keepdim=True)
        return self.logit((f - apc).permute(0, 2, 3, 1)).squeeze(-1)


if __name__ == "__main__":
    a3m = io.StringIO(">a\nMKV-LA\n>b\nMRVgA-LA\n>c\nMKI-LS\n")
    t = subsample(tokenise([s[:6] for s in read_a3m(a3m)]), 3)
    print(ContactNet()(torch.from_numpy(t)[None]).shape)
