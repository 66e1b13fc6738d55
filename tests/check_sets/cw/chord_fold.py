import torch
from torch import nn


class ChordAttention(nn.Module):
    """Multi-head attention over chord sequences using plain bmm.

    x: (B, L, C).  rest: (B, L) bool, True = rest/padding symbol that nobody should attend to;
    each piece has at least one chord. Pieces in a batch do not influence each other.
    """

    def __init__(self, C, H):
        super().__init__()
        self.H = H
        self.d = C // H
        self.q = nn.Linear(C, C)
        self.kv = nn.Linear(C, 2 * C)
        self.out = nn.Linear(C, C)

    def fold(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.H, self.d).transpose(1, 2).reshape(B * self.H, L, self.d)

    def forward(self, x, rest=None):
        B, L, C = x.shape
        k, v = self.kv(x).chunk(2, dim=-1)
        q, k, v = self.fold(self.q(x)), self.fold(k), self.fold(v)
        s = torch.bmm(q, k.transpose(1, 2)).div(self.d ** 0.5)
        if rest is not None:
            m = rest.unsqueeze(1).repeat(self.H, 1, 1)
            s = s.masked_fill(m, float("-inf"))
        y = torch.bmm(s.softmax(-1), v)
        y = y.view(B, self.H, L, self.d).transpose(1, 2).reshape(B, L, C)
        return self.out(y)
