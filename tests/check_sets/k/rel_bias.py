import torch
from torch import nn


class RelativeAttention(nn.Module):
    """Self-attention with a learned bias for each relative position: bias[h, i - j + max_len - 1] is added to score (i, j)."""

    def __init__(self, dim, heads, max_len=32):
        super().__init__()
        self.heads, self.max_len = heads, max_len
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.rel = nn.Parameter(torch.randn(heads, 2 * max_len - 1))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        pos = torch.arange(n)
        idx = pos[None, :] - pos[:, None] + self.max_len - 1
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.rel[:, idx]
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
