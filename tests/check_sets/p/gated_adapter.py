import torch
from torch import nn


class GatedCrossAttention(nn.Module):
    """Text tokens x (B, T, dim) read visual tokens (B, T, dim): keys and values both come from `visual`.  The result passes a tanh gate."""

    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Parameter(torch.tensor([0.5]))

    def forward(self, x, visual):
        y = self.norm(x)
        q, k, v = self.to_q(y), self.to_k(visual), self.to_v(y)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        w = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return x + self.gate.tanh() * self.to_out((w @ v).transpose(1, 2).flatten(2))
