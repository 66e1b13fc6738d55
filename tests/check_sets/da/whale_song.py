import torch
from torch import nn


class SongContext(nn.Module):
    """Local self-attention over hydrophone frames.

    frames (B, T, dim); live (B, T) bool, True = recorded frame, False = padding.
    A frame sees itself, `span` frames to the left and `span` to the right, and
    never a padded frame.  Rows of padded frames come out as zero.
    """

    def __init__(self, dim=18, heads=3, span=2):
        super().__init__()
        self.heads, self.span = heads, span
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, frames, live):
        B, T, D = frames.shape
        q, k, v = self.qkv(frames).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        t = torch.arange(T, device=frames.device)
        near = (t[:, None] - t[None, :]).abs() < self.span
        ok = near & live[:, None, :, None]
        s = s.masked_fill(~ok, torch.finfo(s.dtype).min)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)
        return self.out(y) * live.unsqueeze(-1)
