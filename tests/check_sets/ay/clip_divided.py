"""Gesture recognition in short clips: divided space-time attention (TimeSformer)."""
from functools import lru_cache

import torch
from torch import nn


class Mlp(nn.Sequential):
    def __init__(self, d, r=4):
        super().__init__(nn.Linear(d, r * d), nn.GELU(), nn.Linear(r * d, d))


class SpaceTimeAttention(nn.Module):
    """Self-attention along time OR space of a clip laid out as [B, T, P, C] (frames,
    patches per frame).

    axis "time":  patch p of frame t looks at patch p of all frames
    axis "space": patch p of frame t looks at all patches of frame t
    `seen` [B, T] bool: False for frames behind the end of a short clip. In the time axis
    these are never looked at.
    """

    def __init__(self, dim, heads, axis):
        super().__init__()
        if axis not in ("time", "space"):
            raise ValueError(axis)
        self.axis, self.heads = axis, heads
        self.hd = dim // heads
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, seen=None):
        if self.axis == "time":
            x = x.transpose(1, 2)
        B, outer, n, C = x.shape
        q = self.to_q(x).view(B, outer, n, self.heads, self.hd).transpose(2, 3)
        kv = self.to_kv(x).view(B, outer, n, 2, self.heads, self.hd)
        k = kv[:, :, :, 0].permute(0, 1, 3, 4, 2)
        v = kv[:, :, :, 1].transpose(2, 3)

        root = self.hd ** -0.25
        sim = (q * root) @ (k * root)                        # [B, outer, heads, n, n]
        if seen is not None and self.axis == "time":
            sim = sim.masked_fill(~seen[:, None, None, None, :], float("-inf"))
            sim = sim.masked_fill(~seen.any(1)[:, None, None, None, None], 0.0)
        y = sim.softmax(-1) @ v
        if seen is not None and self.axis == "time":
            y = y * seen.any(1)[:, None, None, None, None]
        y = self.proj(y.transpose(2, 3).reshape(B, outer, n, C))
        return y.transpose(1, 2) if self.axis == "time" else y


class DividedBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.nt, self.ns, self.nm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.time = SpaceTimeAttention(d, heads, "time")
        self.space = SpaceTimeAttention(d, heads, "space")
        self.mlp = Mlp(d)

    def forward(self, x, seen):
        x = x + self.time(self.nt(x), seen)
        x = x + self.space(self.ns(x))
        return x + self.mlp(self.nm(x))


@lru_cache(maxsize=8)
def grid_positions(h, w, d):
    """2-D sine table [h*w, d]; half of the channels for y, half for x."""
    def one(n):
        i = torch.arange(0, d // 2, 2)
        ang = torch.arange(n)[:, None] / 10000 ** (i / (d // 2))
        return torch.cat([ang.sin(), ang.cos()], 1)
    y = one(h)[:, None].expand(h, w, -1)
    x = one(w)[None].expand(h, w, -1)
    return torch.cat([y, x], -1).reshape(h * w, d)


class GestureNet(nn.Module):
    def __init__(self, classes, d=96, heads=6, depth=4, patch=16, max_frames=32):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.frame = nn.Parameter(torch.zeros(max_frames, 1, d))
        self.blocks = nn.ModuleList(DividedBlock(d, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def forward(self, clip, n_frames=None):
        """clip [B, T, 3, H, W]; n_frames [B] real frames, rest is filler."""
        B, T = clip.shape[:2]
        f = self.patch(clip.flatten(0, 1))
        h, w = f.shape[-2:]
        x = f.flatten(2).transpose(1, 2).unflatten(0, (B, T))
        x = x + grid_positions(h, w, x.shape[-1]).to(x) + self.frame[:T]
        seen = None
        if n_frames is not None:
            seen = torch.arange(T, device=clip.device)[None] < n_frames[:, None]
        for blk in self.blocks:
            x = blk(x, seen)
        x = self.norm(x).mean(2)
        if seen is not None:
            m = seen.unsqueeze(-1).to(x.dtype)
            return self.head((x * m).sum(1) / m.sum(1).clamp(min=1))
        return self.head(x.mean(1))


def sample_frames(n_total, n_want, jitter=False):
    edges = torch.linspace(0, n_total, n_want + 1)
    lo, width = edges[:-1], edges[1] - edges[0]
    at = lo + (torch.rand(n_want) if jitter else 0.5) * width
    return at.floor().long().clamp(max=n_total - 1)


if __name__ == "__main__":
    net = GestureNet(5)
    print(net(torch.randn(2, 8, 3, 64, 64), torch.tensor([8, 5])).shape)
