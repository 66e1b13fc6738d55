import torch
import torch.nn as nn


class StreamingWindow(nn.Module):
    """Frame-by-frame self-attention for speech: a frame sees the last `span` frames, itself included."""

    def __init__(self, dim, heads=2, span=4):
        super().__init__()
        self.heads, self.span = heads, span
        self.q_proj = nn.Linear(dim, dim)
        self.kv_proj = nn.Linear(dim, 2 * dim)
        self.o_proj = nn.Linear(dim, dim)

    def step(self, frame, buf=None):
        """frame (B, dim); buf None or (K, V) with shapes (B, heads, n, dim // heads), n < span"""
        B, D = frame.shape
        q = self.q_proj(frame).view(B, self.heads, 1, -1)
        k, v = self.kv_proj(frame).view(B, 2, self.heads, 1, D // self.heads).unbind(1)
        if buf is not None:
            k = torch.cat((buf[0], k), dim=2)
            v = torch.cat((buf[1], v), dim=2)
        w = torch.softmax((q * k).sum(-1) / q.size(-1) ** 0.5, dim=-1)
        y = torch.einsum("bhn,bhnd->bhd", w, v).reshape(B, D)
        n = min(k.size(2), self.span - 1)
        start = k.size(2) - n
        return self.o_proj(y), (k[:, :, start:], v[:, :, start:])

    def forward(self, frames):
        """(B, T, dim) -> (B, T, dim)"""
        buf, ys = None, []
        for t in range(frames.size(1)):
            y, buf = self.step(frames[:, t], buf)
            ys.append(y)
        return torch.stack(ys, dim=1)
