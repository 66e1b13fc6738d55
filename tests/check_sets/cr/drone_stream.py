import torch
import torch.nn as nn


class StreamingAttention(nn.Module):
    """Scaled dot-product attention over a rolling history of drone sensor readings.

    step() takes one reading (B, dim), adds its key and value to the history (at most `horizon`
    newest readings are kept) and attends from it to the whole history, itself included.
    """

    def __init__(self, dim=16, heads=2, horizon=8):
        super().__init__()
        self.heads, self.hd, self.horizon = heads, dim // heads, horizon
        self.proj_q = nn.Linear(dim, dim)
        self.proj_k = nn.Linear(dim, dim)
        self.proj_v = nn.Linear(dim, dim)
        self.proj_o = nn.Linear(dim, dim)
        self.reset()

    def reset(self):
        self.hist_k = None
        self.hist_v = None

    def step(self, reading):
        B = reading.size(0)
        q = self.proj_q(reading).view(B, self.heads, 1, self.hd)
        k = self.proj_k(reading).view(B, self.heads, 1, self.hd)
        v = self.proj_v(reading).view(B, self.heads, 1, self.hd)
        if self.hist_k is not None:
            k = torch.cat([k, self.hist_k], dim=2)[:, :, : self.horizon]
            v = torch.cat([self.hist_v, v], dim=2)[:, :, -self.horizon:]
        self.hist_k, self.hist_v = k, v
        w = torch.softmax(q @ k.transpose(-1, -2) / self.hd ** 0.5, dim=-1)
        return self.proj_o((w @ v).reshape(B, -1))

    def forward(self, readings):
        """readings (B, T, dim), fed one after the other from an empty history -> (B, T, dim)"""
        self.reset()
        return torch.stack([self.step(r) for r in readings.unbind(1)], dim=1)
