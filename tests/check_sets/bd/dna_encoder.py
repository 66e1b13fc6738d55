"""Promoter detection in DNA reads. k-mer tokens, small bidirectional encoder."""
from itertools import product

import torch
import torch.nn as nn

K = 3
KMERS = {"".join(p): i + 1 for i, p in enumerate(product("ACGT", repeat=K))}
PAD = 0


def tokenize(read):
    return [KMERS.get(read[i:i + K], PAD) for i in range(len(read) - K + 1)]


def collate(reads):
    ids = [tokenize(r) for r in reads]
    n = max(map(len, ids))
    return torch.tensor([i + [PAD] * (n - len(i)) for i in ids])


def masked_attention(q, k, v, is_pad=None, drop=None):
    """Plain scaled dot-product attention.

    q, k, v: [B, H, L, D] of the same reads.  is_pad: bool [B, L]; padded k-mers must not be attended to.
    Returns [B, H, L, D].  The arguments are only read.
    """
    q *= q.size(-1) ** -0.5
    sim = torch.matmul(q, k.transpose(2, 3))
    if is_pad is not None:
        sim = sim.masked_fill(is_pad[:, None, :, None], -1e9)
    w = sim.softmax(dim=3)
    if drop is not None:
        w = drop(w)
    return torch.matmul(w, v)


class ReadEncoderLayer(nn.Module):
    def __init__(self, dim=48, heads=4, p=0.1):
        super().__init__()
        self.h = heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])

    def forward(self, x, is_pad):
        b, l, d = x.shape
        y = self.in_proj(self.norms[0](x)).view(b, l, 3, self.h, d // self.h)
        q, k, v = y.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
        y = masked_attention(q.clone(), k, v, is_pad, self.drop)
        x = x + self.out_proj(y.transpose(1, 2).reshape(b, l, d))
        return x + self.drop(self.ff(self.norms[1](x)))


class PromoterNet(nn.Module):
    def __init__(self, dim=48, depth=2):
        super().__init__()
        self.embed = nn.Embedding(len(KMERS) + 1, dim, padding_idx=PAD)
        self.place = nn.Embedding(512, dim)
        self.layers = nn.ModuleList([ReadEncoderLayer(dim) for _ in range(depth)])
        self.score = nn.Linear(dim, 1)

    def forward(self, ids):
        pad = ids == PAD
        x = self.embed(ids) + self.place(torch.arange(ids.size(1)))
        for layer in self.layers:
            x = layer(x, pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.score((x * keep).sum(1) / keep.sum(1).clamp(min=1)).squeeze(-1)


if __name__ == "__main__":
    print(PromoterNet().eval()(collate(["ACGTTGCAAC", "TTGACA"])))
