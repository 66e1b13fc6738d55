import torch
import torch.nn as nn
import torch.nn.functional as F


class NeighbourAttention1d(nn.Module):
    """Every sample of the ECG looks at the `r` samples on each side and at itself.

    x: [batch, channels, time] -> same shape. No T x T matrix is ever built.
    """

    def __init__(self, channels, heads=4, r=8):
        super().__init__()
        assert channels % heads == 0
        self.h, self.r = heads, r
        self.hd = channels // heads
        self.to_q = nn.Conv1d(channels, channels, 1)
        self.to_k = nn.Conv1d(channels, channels, 1, bias=False)
        self.to_v = nn.Conv1d(channels, channels, 1)
        self.merge = nn.Conv1d(channels, channels, 1)
        self.place = nn.Parameter(torch.zeros(heads, 2 * r + 1))

    def _strips(self, z):
        z = F.pad(z, (self.r, self.r))
        z = z.unfold(2, 2 * self.r + 1, 1)               # B C T W
        B, C, T, W = z.shape
        return z.reshape(B, self.h, self.hd, T, W)

    def forward(self, x):
        B, C, T = x.shape
        W = 2 * self.r + 1
        q = self.to_q(x).reshape(B, self.h, self.hd, T)
        k = self._strips(self.to_k(x))
        v = self._strips(self.to_v(x))

        score = torch.einsum("bhct,bhctw->bhtw", q, k) / self.hd ** 0.5
        score = score + self.place[:, None]

        t = torch.arange(T, device=x.device)[:, None]
        j = t + torch.arange(-self.r, self.r + 1, device=x.device)
        outside = (j < 0) | (j >= T)
        score = score.masked_fill(outside, -float("inf"))

        w = score.softmax(-1)
        y = torch.einsum("bhtw,bhctw->bhct", w, v).reshape(B, C, T)
        return self.merge(y)
