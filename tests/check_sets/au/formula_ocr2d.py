"""Handwritten formula OCR: 2-D transformer encoder over image cells, output is LaTeX tokens (CTC-free)."""
import math

import torch
import torch.nn as nn


def pos2d(h, w, dim):
    """Half of the channels for rows, half for columns; dim divisible by 4."""
    def one(n, d):
        p = torch.arange(n).float()[:, None]
        f = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        t = torch.zeros(n, d)
        t[:, 0::2], t[:, 1::2] = torch.sin(p * f), torch.cos(p * f)
        return t
    r, c = one(h, dim // 2), one(w, dim // 2)
    return torch.cat([r[:, None].expand(h, w, -1), c[None].expand(h, w, -1)], -1)


class CellEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(1, dim // 2, 4, 4), nn.ReLU(), nn.Conv2d(dim // 2, dim, 2, 2))

    def forward(self, img):
        f = self.c(img).permute(0, 2, 3, 1)
        return f + pos2d(f.shape[1], f.shape[2], f.shape[3]).to(f)


class MultiHead2D(nn.Module):
    """Multi-head scaled dot-product self-attention (Vaswani et al. 2017) over [B, h, w, dim]."""

    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads, self.per = dim, heads, dim // heads
        self.wq, self.wk, self.wv = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x):
        B, h, w, _ = x.shape
        n = h * w
        x = x.reshape(B, n, self.dim)
        q = self.wq(x).reshape(B, n, self.heads, self.per).transpose(1, 2)
        k = self.wk(x).reshape(B, n, self.heads, self.per).transpose(1, 2)
        v = self.wv(x).reshape(B, n, self.heads, self.per).transpose(1, 2)
        s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.dim)
        y = torch.matmul(torch.softmax(s, dim=-1), v)
        y = y.reshape(B, n, self.dim)
        return self.wo(y).reshape(B, h, w, self.dim)


class Layer2D(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = MultiHead2D(dim, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = self.n1(x + self.att(x))
        return self.n2(x + self.ff(x))


class FormulaReader(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, depth=2):
        super().__init__()
        self.cells = CellEncoder(dim)
        self.layers = nn.ModuleList(Layer2D(dim, heads) for _ in range(depth))
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, img, tokens):
        x = self.cells(img)
        for l in self.layers:
            x = l(x)
        y, _ = self.rnn(self.emb(tokens), x.mean((1, 2)).unsqueeze(0).contiguous())
        return self.out(y)
