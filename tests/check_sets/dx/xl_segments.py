"""Transformer-XL self-attention with segment memory (Dai et al. 2019), my reading project.

The layer remembers the (detached) inputs of the last `mem_len` positions between calls:
    y = layer(x)     x (B, T, D), the next T tokens of the B texts;  y (B, T, D)
    layer.forget()   start new texts
Keys and values come from [memory ; x], queries from x only. Token i of the segment sees the
whole memory and the tokens j <= i of the segment. With the distance D_ij = i - j >= 0 counted
over [memory ; x] (a token's own distance is 0, the one just before it has 1, ...)

    score = ((q_i + u).k_j + (q_i + v).r[D_ij]) / sqrt(d),   r[n] = W_r sinusoid(n)
"""
import torch
from torch import nn


def sinusoid(n, D):
    w = 10000.0 ** (-torch.arange(0, D, 2) / D)
    a = n[:, None] * w
    return torch.cat([a.sin(), a.cos()], dim=1)


class XLAttention(nn.Module):
    def __init__(self, D=32, heads=4, mem_len=6):
        super().__init__()
        self.heads, self.d, self.mem_len = heads, D // heads, mem_len
        self.wq, self.wo = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.wkv = nn.Linear(D, 2 * D, bias=False)
        self.wr = nn.Linear(D, D, bias=False)
        self.u = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.v = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.forget()

    def forget(self):
        self.mem = None

    def forward(self, x):
        B, T, D = x.shape
        full = x if self.mem is None else torch.cat([self.mem, x], dim=1)
        S = full.shape[1]
        q = self.wq(x).view(B, T, self.heads, self.d)
        k, val = self.wkv(full).view(B, S, 2, self.heads, self.d).unbind(2)
        r = self.wr(sinusoid(torch.arange(S, device=x.device), D)).view(S, self.heads, self.d)

        pos = torch.arange(S, device=x.device)
        dist = (pos[S - T:, None] - pos[None, :]).clamp(min=0)
        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = torch.einsum("bihd,nhd->bhin", q + self.v, r)
        bd = bd.gather(3, (S - 1 - dist).expand(B, self.heads, T, S))
        s = (ac + bd) / self.d ** 0.5
        hidden = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        w = s.masked_fill(hidden, float("-inf")).softmax(-1)
        y = torch.einsum("bhij,bjhd->bihd", w, val).reshape(B, T, D)
        self.mem = full[:, -self.mem_len:].detach()
        return self.wo(y)
