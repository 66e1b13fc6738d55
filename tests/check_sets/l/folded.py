import torch
from torch import nn


class FoldedAttention(nn.Module):
    """Heads are folded into the batch axis so that bmm can be used."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.lq = nn.Linear(hidden, hidden)
        self.lk = nn.Linear(hidden, hidden)
        self.lv = nn.Linear(hidden, hidden)
        self.lo = nn.Linear(hidden, hidden)

    def forward(self, x):
        b, n, c = x.shape
        h, d = self.heads, c // self.heads
        fold = lambda z: z.view(b, n, h, d).transpose(1, 2).reshape(b * h, n, d)
        q, k, v = fold(self.lq(x)), fold(self.lk(x)), fold(self.lv(x))
        w = torch.bmm(q, k.transpose(1, 2)).mul(d ** -0.5).softmax(2)
        y = torch.bmm(w, v)
        y = y.view(h, b, n, d).permute(1, 2, 0, 3).reshape(b, n, c)
        return self.lo(y)
