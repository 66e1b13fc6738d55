"""Set encoder for container loading: the boxes of an order are a set without order.

Follows the Set Transformer layout (MAB / ISAB / PMA).  As in "Attention is all you
need" every head works on dim / heads features and its dot products are divided by
the square root of that width.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """MAB(X, Y) = LN(H + rFF(H)),  H = LN(X + Multihead(X, Y, Y))"""

    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.fc_q = nn.Linear(dim, dim)
        self.fc_k = nn.Linear(dim, dim)
        self.fc_v = nn.Linear(dim, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ff = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim)
        self.ln1 = nn.LayerNorm(dim)

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.dim // self.heads).transpose(1, 2)

    def forward(self, X, Y, keep=None):
        """X [B, n, dim], Y [B, m, dim], keep bool [B, m] (True = a real box)"""
        q, k, v = self.split(self.fc_q(X)), self.split(self.fc_k(Y)), self.split(self.fc_v(Y))
        a = q @ k.transpose(2, 3) / math.sqrt(self.dim)
        if keep is not None:
            hide = ~keep[:, None, None, :]
            a = a.masked_fill(hide, torch.finfo(a.dtype).min)
            w = a.softmax(-1).masked_fill(hide, 0.0)
        else:
            w = a.softmax(-1)
        mixed = (w @ v).transpose(1, 2).flatten(2)
        h = self.ln0(X + self.fc_o(mixed))
        return self.ln1(h + F.relu(self.ff(h)))


class CargoEncoder(nn.Module):
    """boxes [B, m, features], count [B] -> one vector per order [B, dim]"""

    def __init__(self, features=5, dim=64, heads=4, inducing=8):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.I = nn.Parameter(torch.randn(1, inducing, dim) * 0.1)
        self.S = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.up = MAB(dim, heads)
        self.down = MAB(dim, heads)
        self.pool = MAB(dim, heads)

    def forward(self, boxes, count):
        b, m, _ = boxes.shape
        keep = torch.arange(m, device=boxes.device) < count[:, None]
        x = self.inp(boxes)
        h = self.up(self.I.expand(b, -1, -1), x, keep)     # ISAB, first half
        x = self.down(x, h)                                # second half
        return self.pool(self.S.expand(b, -1, -1), x, keep)[:, 0]
