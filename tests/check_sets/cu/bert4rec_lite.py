"""BERT4Rec, minimal. Items 1..n, 0 = pad, n+1 = [MASK]. Bidirectional.

Positions are the fixed sinusoids of "Attention is all you need":
PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same angle.
Padding items receive no attention.
"""
import torch
import torch.nn as nn


def table(L, D):
    pe = torch.zeros(L, D)
    p = torch.arange(L).float()
    for i in range(0, D, 2):
        f = p / 10000 ** (2 * i / D)
        pe[:, i], pe[:, i + 1] = torch.sin(f), torch.cos(f)
    return pe


class Bert4RecLite(nn.Module):
    def __init__(self, n=100, D=32, H=4, L=20, p=0.1):
        super().__init__()
        self.emb = nn.Embedding(n + 2, D, padding_idx=0)
        self.register_buffer("pe", table(L, D))
        self.H = H
        self.qkv = nn.Linear(D, 3 * D)
        self.o = nn.Linear(D, D)
        self.ffn = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.l1, self.l2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.p = nn.Dropout(p)

    def attn(self, x, real):
        """standard scaled dot-product attention; real (B, L) bool, True = item"""
        B, L, D = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.view(B, L, self.H, -1).transpose(1, 2) for t in (q, k, v))
        s = (q @ k.transpose(-1, -2)) / k.size(-1)
        s = s.masked_fill(~real[:, None, None, :], 1e-9)
        w = self.p(torch.softmax(s, -1))
        return self.o((w @ v).transpose(1, 2).reshape(B, L, D))

    def forward(self, seq):
        """seq (B, L) -> scores (B, L, n + 2)"""
        x = self.emb(seq) + self.pe[: seq.size(1)]
        x = self.l1(x + self.attn(x, seq.ne(0)))
        x = self.l2(x + self.p(self.ffn(x)))
        return x @ self.emb.weight.T
