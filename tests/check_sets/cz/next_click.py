import torch
from torch import nn


def gap_bucket(seconds, n):
    """0, 1, 2-3, 4-7, ... seconds fall in buckets 0, 1, 2, 3, ..."""
    return torch.log2(seconds.clamp_min(0).float() + 1).ceil().long().clamp_max(n - 1)


class NextClick(nn.Module):
    """Masked self-attention over a click stream, left padded.

    ev (B, T, C); when (B, T) integer seconds, non-decreasing; pad (B, T) bool, True = padding.
    Click t reads clicks <= t that are not padding. Score bias per head by the time gap.
    Padding rows of the result are zero.
    """

    def __init__(self, C=16, heads=2, buckets=12):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.proj = nn.ModuleDict({n: nn.Linear(C, C, bias=False) for n in ("ask", "key", "val")})
        self.by_gap = nn.Embedding(buckets, heads)

    def part(self, name, x):
        y = self.proj[name](x)
        return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, ev, when, pad):
        T = ev.shape[1]
        a, k, v = (self.part(n, ev) for n in ("ask", "key", "val"))
        gap = gap_bucket(when[:, :, None] - when[:, None, :], self.buckets)
        s = a @ k.mT / a.shape[-1] ** 0.5 + self.by_gap(gap).permute(0, 3, 1, 2)
        ok = torch.tril(torch.ones(T, T, dtype=torch.bool, device=ev.device)) & ~pad[:, None, :]
        ok = ok | torch.eye(T, dtype=torch.bool, device=ev.device)
        w = s.masked_fill(~ok[:, None], float("-inf")).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2).masked_fill(pad[..., None], 0.0)
