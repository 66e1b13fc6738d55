"""Attention cell for a keyword spotter on a microcontroller: fed frame by frame.

    cell = Cell(d=16, heads=2)
    state = None
    for block in microphone:             # block (B, n, d), n = 1, 2, ... frames
        y, state = cell(block, state)    # y (B, n, d)

state is a dict with "k", "v": (B, heads, frames so far, d // heads), "k" already rotated.

A frame attends to itself and to all frames since the state was None.  Queries and keys
carry rotary positions (half-split: feature m is paired with feature m + e/2, angle
t * 10000 ** (-2 m / e), e = d // heads), t = number of the frame since the start of the
utterance.  It does not matter into which blocks an utterance is cut.
"""
import torch
from torch import nn


def angles(t, e):
    f = 10000.0 ** (-torch.arange(0, e, 2, device=t.device).float() / e)
    a = t.float()[:, None] * f                        # (n, e/2)
    return a.cos(), a.sin()


def rotate(x, cos, sin):
    lo, hi = x.chunk(2, dim=-1)
    return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], dim=-1)


class Cell(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.pre = nn.Linear(d, 3 * d)
        self.post = nn.Linear(d, d)

    def forward(self, block, state=None):
        B, n, d = block.shape
        q, k, v = self.pre(block).view(B, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        old = 0 if state is None else state["k"].shape[2]
        t = torch.arange(n, device=block.device)
        cos, sin = angles(t, q.shape[-1])
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if state is not None:
            k = torch.cat([state["k"], k], dim=2)
            v = torch.cat([state["v"], v], dim=2)
        s = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        now = torch.arange(old, old + n, device=block.device)
        later = torch.arange(old + n, device=block.device)[None, :] > now[:, None]
        p = s.masked_fill(later, -1e9).softmax(dim=-1)
        y = (p @ v).transpose(1, 2).reshape(B, n, d)
        return self.post(y), {"k": k, "v": v}
