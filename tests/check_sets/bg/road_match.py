# map matching: GPS fixes -> road segments
import torch
from torch import nn
from torch.nn import functional as F

EARTH_M = 6_371_000.0


def haversine(a, b):
    """a [...,2], b [...,2] degrees -> metres"""
    a, b = torch.deg2rad(a), torch.deg2rad(b)
    d = b - a
    h = torch.sin(d[..., 0] / 2) ** 2 + torch.cos(a[..., 0]) * torch.cos(b[..., 0]) * torch.sin(d[..., 1] / 2) ** 2
    return 2 * EARTH_M * torch.asin(h.clamp(0, 1).sqrt())


def reach_bias(fixes, segs, radius=150.0):
    """0 where the segment is within the radius of the fix, -inf elsewhere; [B, T, S].
    The nearest segment is always within reach."""
    m = haversine(fixes[:, :, None], segs[:, None])
    far = (m > radius) & (m > m.amin(-1, keepdim=True))
    return torch.zeros_like(m).masked_fill(far, float("-inf"))


class SegmentMatcher(nn.Module):
    """fix_feat [B,T,D], seg_feat [B,S,D], bias [B,T,S] as made by reach_bias (added to the
    scores, i.e. 0 = may match, -inf = may not). Returns [B,T,D]."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, dim * 2)
        self.o = nn.Linear(dim, dim)

    def forward(self, fix_feat, seg_feat, bias=None):
        def fold(x):
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q = fold(self.q(fix_feat))
        k, v = map(fold, self.kv(seg_feat).chunk(2, -1))
        if bias is not None:
            bias = bias.unsqueeze(1).to(torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.o(y.transpose(1, 2).flatten(2))


class Matcher(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.f = nn.Linear(4, dim)
        self.s = nn.Linear(6, dim)
        self.match = SegmentMatcher(dim, heads)

    def forward(self, fix, seg, bias):
        f, s = self.f(fix), self.s(seg)
        f = f + self.match(f, s, bias)
        return torch.log_softmax(f @ s.transpose(1, 2), -1)
