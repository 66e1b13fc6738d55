"""Anomaly score for wind turbines, frame after frame, memory of the last `keep` frames."""
import torch
from torch import nn


class TurbineWatch(nn.Module):
    """x (B, T, channels) -> score (B, T).

    Each frame reads the newest `keep` frames, itself included, and predicts its own values
    from what it read; the score is the squared error.
    """

    def __init__(self, channels=8, dim=16, keep=4):
        super().__init__()
        self.keep, self.dim = keep, dim
        self.q = nn.Linear(channels, dim)
        self.k = nn.Linear(channels, dim)
        self.v = nn.Linear(channels, dim)
        self.back = nn.Linear(dim, channels)

    def step(self, frame, mem):
        """frame (B, channels), mem None or (keys, values), each (B, n, dim)"""
        q, k, v = self.q(frame), self.k(frame)[:, None], self.v(frame)[:, None]
        if mem is not None:
            k, v = torch.cat([mem[0], k], dim=1), torch.cat([mem[1], v], dim=1)
        k = k[:, -self.keep:]
        v = v[:, :self.keep]
        w = torch.softmax(torch.einsum("bd,bnd->bn", q, k) / self.dim ** 0.5, dim=-1)
        return torch.einsum("bn,bnd->bd", w, v), (k, v)

    def forward(self, x):
        mem, scores = None, []
        for frame in x.unbind(dim=1):
            read, mem = self.step(frame, mem)
            scores.append((self.back(read) - frame).square().mean(-1))
        return torch.stack(scores, dim=1)
