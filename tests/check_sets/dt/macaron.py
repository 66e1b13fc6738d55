"""Macaron block (half FFN, attention, half FFN), homework 3, group 12.

MacaronBlock(dim, heads, p)(x) with x of shape [batch, words, dim] gives [batch, words, dim].
Every word looks at every word of its own sentence, all sentences have equal length, so
there is no mask. Heads are split and put together again as in Vaswani et al.: the output of
word i is the concatenation of what head 1, ..., head h computed for word i, times W_O.
Dropout with probability p on the attention weights and on both FFNs, in training only.
"""
from math import sqrt
import torch
import torch.nn as nn
import torch.nn.functional as F


class HalfFFN(nn.Module):
    def __init__(self, dim, p):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(),
            nn.Dropout(p), nn.Linear(2 * dim, dim),
        )

    def forward(self, x):
        return 0.5 * self.net(x)


class Attn(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.w_q = nn.Linear(dim, dim)
        self.w_k = nn.Linear(dim, dim)
        self.w_v = nn.Linear(dim, dim)
        self.w_o = nn.Linear(dim, dim)

    def split(self, t):
        b, n, dim = t.size()
        return t.reshape(b, n, self.heads, dim // self.heads).permute(0, 2, 1, 3)

    def forward(self, x):
        b, n, dim = x.size()
        q = self.split(self.w_q(x))
        k = self.split(self.w_k(x))
        v = self.split(self.w_v(x))
        a = F.softmax(q @ k.transpose(2, 3) / sqrt(q.size(3)), dim=3)
        a = F.dropout(a, p=self.p)
        y = torch.einsum("bhij,bhjd->bhid", a, v)
        y = y.contiguous().view(b, n, dim)
        return self.w_o(y)


class MacaronBlock(nn.Module):
    def __init__(self, dim, heads, p=0.1):
        super().__init__()
        self.pre = HalfFFN(dim, p)
        self.ln = nn.LayerNorm(dim)
        self.attn = Attn(dim, heads, p)
        self.post = HalfFFN(dim, p)

    def forward(self, x):
        x = x + self.pre(x)
        x = x + self.attn(self.ln(x))
        return x + self.post(x)
