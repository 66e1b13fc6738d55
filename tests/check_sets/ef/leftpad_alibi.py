"""Batched generation with left padding and ALiBi, with a growing cache.

LeftPadAlibi(x, is_pad, past=None)
    x       (B, T, D)     new tokens
    is_pad  (B, P + T)    bool, True = padding, for cached and new positions;
                          padding is at the left, the last position never is
    past    None or (k, v), each (B, H, P, d)
    returns y (B, T, D) and the new (k, v). Rows of y that belong to padding
            are zeros.

score = q.k/sqrt(d) - slope_h * (i - j) for j <= i, slopes of Press et al.:
2^(-8/n), 2^(-16/n), ... for n heads, n a power of two. Distances do not
change when padding is put in front.
"""
import torch
from torch import nn


class LeftPadAlibi(nn.Module):
    def __init__(self, D=32, n=4):
        super().__init__()
        assert n & (n - 1) == 0, "power of two"
        self.n, self.d = n, D // n
        self.inp = nn.Linear(D, 3 * D)
        self.outp = nn.Linear(D, D)
        h = torch.arange(1, n + 1, dtype=torch.float32)
        self.register_buffer("slope", torch.exp2(-8.0 * h / n).view(n, 1, 1))

    def forward(self, x, is_pad, past=None):
        B, T, D = x.shape
        q, k, v = self.inp(x).view(B, T, 3, self.n, self.d).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.shape[2]
        j = torch.arange(S, device=x.device)
        i = j[S - T:, None]
        s = q @ k.transpose(-1, -2) / self.d ** 0.5
        s = s - self.slope * (i - j)
        hide = (j > i) | is_pad[:, None, None, :]
        p = torch.softmax(s.masked_fill(hide, float("-inf")), dim=-1)
        p = p.masked_fill(hide, 0.0)           # rows of padding: nan -> 0
        y = (p @ v).transpose(1, 2).reshape(B, T, D)
        y = self.outp(y).masked_fill(is_pad[:, S - T:, None], 0.0)
        return y, (k, v)
