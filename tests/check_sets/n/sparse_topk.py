import torch
from torch import nn


class TopKAttention(nn.Module):
    """Only the `topk` best keys of each query take part in the softmax."""

    def __init__(self, dim, topk=3):
        super().__init__()
        self.topk = topk
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, x):
        s = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        val, idx = s.topk(min(self.topk, s.shape[-1]), dim=-1, largest=False)
        w = torch.zeros_like(s).scatter(-1, idx, val.softmax(-1))
        return w @ self.v(x)
