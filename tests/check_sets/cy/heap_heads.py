import torch
from torch import nn


class HeapHeads(nn.Module):
    """Self-attention for chess move lists; heads are stacked on the batch axis.

    x (B, L, dim); real (B, L) bool, True for moves, False for padding
    (every game has at least one move). Plain scaled dot-product per head.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.fc = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)

    def stack(self, t):
        return torch.cat(t.chunk(self.heads, dim=-1), dim=0)

    def forward(self, x, real):
        q = self.stack(self.to_q(x))
        k = self.stack(self.to_k(x))
        v = self.stack(self.to_v(x))
        score = torch.bmm(q, k.transpose(1, 2)) * self.scale
        hide = ~real[:, None, :]
        hide = hide.repeat_interleave(self.heads, dim=0)
        score = score.masked_fill(hide, float("-inf"))
        y = torch.bmm(torch.softmax(score, dim=-1), v)
        y = torch.cat(y.chunk(self.heads, dim=0), dim=-1)
        return self.ln(x + self.fc(y))
