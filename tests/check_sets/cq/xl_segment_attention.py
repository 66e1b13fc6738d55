"""Segment-level recurrence with relative positions (Transformer-XL, Dai et al. 2019).

Layout is time-first, like in the original code: (seq, batch, dim).
"""
import torch
import torch.nn as nn


def sinusoid(distances, width):
    half = torch.arange(0, width, 2, device=distances.device, dtype=torch.float32)
    inv = 1.0 / (10000 ** (half / width))
    ang = distances[:, None].float() * inv[None, :]
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


def slide(x):
    """(B, H, T, K) -> same shape, row t moved to the left by T-1-t places."""
    B, H, T, K = x.shape
    x = torch.cat([x.new_zeros(B, H, T, 1), x], dim=-1)
    return x.view(B, H, K + 1, T)[:, :, 1:].reshape(B, H, T, K)


class SegmentAttention(nn.Module):
    """Causal attention of a segment over [memory, segment].

    score(i, j) = (q_i + u) . k_j + (q_i + w) . r_{i-j},  all divided by sqrt(d_head)
    """

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.width, self.heads, self.d = width, heads, width // heads
        self.ask = nn.Linear(width, width, bias=False)
        self.tell = nn.Linear(width, 2 * width, bias=False)
        self.lag = nn.Linear(width, width, bias=False)
        self.u = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.w = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.back = nn.Linear(width, width, bias=False)

    def forward(self, segment, memory=None):
        """segment: (T, B, width); memory: (M, B, width) hidden states of the previous segment or
        None (gradient does not flow into it). Returns (T, B, width)."""
        T, B, _ = segment.shape
        ctx = segment if memory is None else torch.cat([memory.detach(), segment], dim=0)
        K = ctx.size(0)
        q = self.ask(segment).view(T, B, self.heads, self.d)
        k, v = self.tell(ctx).view(K, B, 2, self.heads, self.d).unbind(2)
        lags = torch.arange(K - 1, -1, -1, device=segment.device)
        r = self.lag(sinusoid(lags, self.width)).view(K, self.heads, self.d)

        content = torch.einsum("tbhd,kbhd->bhtk", q + self.u, k)
        position = slide(torch.einsum("tbhd,khd->bhtk", q + self.w, r))
        s = (content + position) / self.d ** 0.5

        t = torch.arange(T, device=segment.device)[:, None] + (K - T)
        future = torch.arange(K, device=segment.device)[None, :] > t
        a = s.masked_fill(future, float("-inf")).softmax(dim=-1)

        y = torch.einsum("bhtk,kbhd->tbhd", a, v).reshape(T, B, self.width)
        return self.back(y)
