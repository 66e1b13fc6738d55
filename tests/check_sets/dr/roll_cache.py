"""A streaming attention layer with a bounded memory (tutorial "transformers on a stream").

`step` takes one frame after the other. The layer remembers the `size` most recent frames
(the current one included); older ones are forgotten. The output for a frame is ordinary
multi-head attention of its query over the remembered frames, logits / sqrt(head dim).

    layer = RollingAttention(dim, heads, size)
    layer.reset(batch)
    y = layer.step(x)        # x (batch, dim) -> y (batch, dim)
"""
import torch
import torch.nn as nn


class RollingAttention(nn.Module):
    def __init__(self, dim, heads=4, size=4):
        super().__init__()
        self.dim, self.heads, self.size = dim, heads, size
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def reset(self, batch):
        w = self.q.weight
        self.keys = w.new_zeros(batch, 0, self.heads, self.dim // self.heads)
        self.values = w.new_zeros(batch, 0, self.heads, self.dim // self.heads)

    def step(self, x):
        b = x.shape[0]
        q = self.q(x).view(b, self.heads, -1)
        k = self.k(x).view(b, 1, self.heads, -1)
        v = self.v(x).view(b, 1, self.heads, -1)
        self.keys = torch.cat([self.keys, k], dim=1)
        self.values = torch.cat([self.values, v], dim=1)
        if self.keys.shape[1] > self.size:
            # forget what no longer fits
            self.keys = self.keys[:, -self.size:]
            self.values = self.values[:, :self.size]
        s = torch.einsum("bhd,bnhd->bhn", q, self.keys) / q.shape[-1] ** 0.5
        y = torch.einsum("bhn,bnhd->bhd", s.softmax(-1), self.values)
        return self.o(y.reshape(b, self.dim))

    def forward(self, frames):
        """frames (batch, time, dim): run `step` over a whole recording from the start."""
        self.reset(frames.shape[0])
        return torch.stack([self.step(f) for f in frames.unbind(1)], dim=1)
