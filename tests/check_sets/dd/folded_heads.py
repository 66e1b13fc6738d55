import math
import torch
import torch.nn as nn


class FoldedMultiHead(nn.Module):
    """Multi-head scaled dot-product attention (Vaswani et al.), heads folded into the batch for bmm.

    q: (B, Lq, dim)   k, v: (B, Lk, dim)   mask: (B, Lk), 1 = word, 0 = padding
    """

    def __init__(self, dim, h):
        super().__init__()
        self.h, self.dh = h, dim // h
        self.fq = nn.Linear(dim, dim)
        self.fk = nn.Linear(dim, dim)
        self.fv = nn.Linear(dim, dim)
        self.fo = nn.Linear(dim, dim)

    def fold(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.h, self.dh).permute(0, 2, 1, 3).reshape(B * self.h, L, self.dh)

    def forward(self, q, k, v, mask=None):
        B, Lq, dim = q.shape
        q, k, v = self.fold(self.fq(q)), self.fold(self.fk(k)), self.fold(self.fv(v))
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.h)
        if mask is not None:
            m = mask.repeat_interleave(self.h, dim=0).unsqueeze(1)
            s = s.masked_fill(m == 0, 1e-9)
        o = torch.bmm(torch.softmax(s, dim=2), v)
        o = o.view(self.h, B, Lq, self.dh).permute(1, 2, 0, 3)
        return self.fo(o.reshape(B, Lq, dim))
