import torch
from torch import nn


class StreamingAttention(nn.Module):
    """Feed one token at a time: step(x) with x (B, dim) attends to all tokens fed so far, including x."""

    def __init__(self, dim, max_len=64):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.dim, self.max_len = dim, max_len
        self.reset(1)

    def reset(self, batch):
        self.keys = torch.zeros(batch, self.max_len, self.dim, dtype=self.q.weight.dtype)
        self.values = torch.zeros(batch, self.max_len, self.dim, dtype=self.q.weight.dtype)
        self.pos = 0

    def forward(self, xs):
        """xs (B, T, dim): feeds the tokens in turn, returns (B, T, dim)."""
        self.reset(xs.shape[0])
        return torch.stack([self.step(xs[:, i]) for i in range(xs.shape[1])], dim=1)

    @torch.no_grad()
    def step(self, x):
        self.keys[:, self.pos] = self.k(x)
        self.values[:, max(self.pos - 1, 0)] = self.v(x)
        self.pos += 1
        s = torch.einsum("bd,bsd->bs", self.q(x), self.keys[:, : self.pos]) / self.dim ** 0.5
        return torch.einsum("bs,bsd->bd", s.softmax(-1), self.values[:, : self.pos])
