import torch
import torch.nn as nn
import torch.nn.functional as F


class WindowedBeatAttention(nn.Module):
    """Every sample attends to the samples at most `radius` steps away on either side.

    x: (B, C, T) as the conv layers give it; memory is O(T * radius).
    """

    def __init__(self, channels, heads=2, radius=8):
        super().__init__()
        self.heads, self.r = heads, radius
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.mix = nn.Conv1d(channels, channels, 1)

    def neighbours(self, t):
        # (B, H, D, T) -> (B, H, D, T, 2r+1)
        return F.pad(t, (self.r, self.r)).unfold(-1, 2 * self.r + 1, 1)

    def forward(self, x):
        B, C, T = x.shape
        q, k, v = self.qkv(x).reshape(B, 3, self.heads, C // self.heads, T).unbind(1)
        s = torch.einsum("bhdt,bhdtw->bhtw", q, self.neighbours(k)) / (C // self.heads) ** 0.5

        inside = self.neighbours(torch.ones(1, 1, 1, T, device=x.device))[:, :, 0].bool()
        s = s.masked_fill(~inside, float("-inf"))
        p = torch.softmax(s, dim=-1)
        y = torch.einsum("bhtw,bhdtw->bhdt", p, self.neighbours(v))
        return x + self.mix(y.reshape(B, C, T))
