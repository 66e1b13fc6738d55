"""Low latency keyword spotting: self attention over a short past.

LocalAttention(dim, heads, left)(x, n):
    x  [B, T, dim] filter bank frames after the front end
    n  [B] int number of real frames (at least 1); the rest is padding
Frame i reads exactly `left` frames: itself and the left - 1 frames directly before it
(fewer at the start of the recording).  left=1 is a frame that reads only itself.  The
latency budget of the device depends on that number.  Returns [B, T, dim]; padded
frames come back as zero.
"""
import torch
from torch import nn
import torch.nn.functional as F


def band(T, left, device=None):
    """bool [T, T], True where query i (row) may read key j (column)"""
    i = torch.arange(T, device=device)[:, None]
    j = torch.arange(T, device=device)[None, :]
    return (j <= i) & (i - j <= left)


class LocalAttention(nn.Module):
    def __init__(self, dim, heads, left):
        super().__init__()
        self.heads, self.left = heads, left
        self.proj_in = nn.Linear(dim, 3 * dim)
        self.proj_out = nn.Linear(dim, dim)

    def forward(self, x, n):
        B, T, D = x.shape
        q, k, v = self.proj_in(x).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=band(T, self.left, x.device))
        y = self.proj_out(y.transpose(1, 2).reshape(B, T, D))
        # padding is at the end and nobody looks to the right: only the rows must be cleared
        real = torch.arange(T, device=x.device) < n[:, None]
        return y * real.unsqueeze(-1)


class Spotter(nn.Module):
    def __init__(self, n_mel=40, dim=32, heads=4, left=8, n_words=12):
        super().__init__()
        self.front = nn.Linear(n_mel, dim)
        self.a = LocalAttention(dim, heads, left)
        self.cls = nn.Linear(dim, n_words)

    def forward(self, mel, n):
        """mel [B, T, n_mel] in dB -> [B, T, n_words]"""
        x = self.front((mel - mel.mean((1, 2), keepdim=True)) / 10.0)
        return self.cls(x + self.a(x, n))
