import torch
from torch import nn


class EncoderAttention(nn.Module):
    """x (batch, time, dim), lengths (batch,): the positions from lengths on are padding and must not be attended to."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.proj_in = nn.Linear(dim, 3 * dim)
        self.proj_out = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        b, t, c = x.shape
        q, k, v = self.proj_in(x).chunk(3, dim=-1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        keep = (torch.arange(t, device=x.device) < lengths[:, None])[:, None, None, :]
        scores = q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5
        attn = scores.softmax(dim=-1)
        attn = attn * keep
        y = (attn @ v).transpose(1, 2).flatten(2)
        return self.proj_out(y)
