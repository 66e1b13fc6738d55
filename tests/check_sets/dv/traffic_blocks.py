import torch
from torch import Tensor, nn


class AxisAttention(nn.Module):
    """Scaled dot-product attention along the last-but-one axis of `x [..., len, dim]`.
    `causal=True`: position i reads 0..i only."""

    def __init__(self, dim: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        *lead, n, dim = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        # ... n (h d) -> ... h n d
        q, k, v = (t.reshape(*lead, n, self.heads, -1).transpose(-3, -2) for t in (q, k, v))
        s = torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
        if self.causal:
            s = s + torch.full((n, n), float("-inf"), device=x.device).triu(1)
        y = torch.einsum("...ij,...jd->...id", s.softmax(-1), v)
        return self.out(y.transpose(-3, -2).reshape(*lead, n, dim))


class TrafficBlock(nn.Module):
    """Space-time block for loop detectors.

    x: [batch, time, sensor, dim] -> same shape.
    First each sensor looks back over its own past (causal), then all sensors of the same time
    step look at each other. Pre-norm with residuals; no value depends on later time steps.
    """

    def __init__(self, dim: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.norm_t, self.norm_s = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time = AxisAttention(dim, heads, causal=True)
        self.space = AxisAttention(dim, heads, causal=False)

    def forward(self, x: Tensor) -> Tensor:
        t = self.norm_t(x).transpose(1, 2)           # b s t d
        x = x + self.time(t).transpose(1, 2)         # b t s d
        return x + self.space(self.norm_s(x))
