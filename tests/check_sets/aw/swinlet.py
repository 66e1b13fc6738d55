"""Window attention backbone for defect inspection (tiles are 8-bit line scans).

Feature maps are channels-last, (B, H, W, C); H and W must be multiples of the window.
"""
import torch
from torch import nn
import torch.nn.functional as F


def to_windows(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(wins, w, H, W):
    B = wins.shape[0] // ((H // w) * (W // w))
    x = wins.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def region_ids(H, W, w, s, device):
    """Number the regions of the rolled map; tokens of two regions must not meet."""
    img = torch.zeros(1, H, W, 1, device=device)
    n = 0
    for a in (slice(0, H - w), slice(H - w, H - s), slice(H - s, H)):
        for b in (slice(0, W - w), slice(W - w, W - s), slice(W - s, W)):
            img[:, a, b] = n
            n += 1
    return to_windows(img, w).squeeze(-1)


class ShiftedTileAttention(nn.Module):
    def __init__(self, dim, heads, window=4, shift=0):
        super().__init__()
        self.heads, self.w, self.s = heads, window, shift
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        yx = yx.flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + window - 1
        self.register_buffer("rel", rel[0] * (2 * window - 1) + rel[1], persistent=False)

    def forward(self, x):
        B, H, W, C = x.shape
        if self.s:
            x = torch.roll(x, (-self.s, -self.s), dims=(1, 2))
        t = to_windows(x, self.w)
        n, L, _ = t.shape
        q, k, v = self.qkv(t).view(n, L, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        sim = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        sim = sim + self.table[self.rel].permute(2, 0, 1)
        if self.s:
            r = region_ids(H, W, self.w, self.s, x.device)
            apart = r[:, :, None] != r[:, None, :]              # True: keep the pair apart
            sim = sim.view(B, -1, self.heads, L, L)
            sim = sim.masked_fill(apart[None, :, None], float("-inf")).view(n, self.heads, L, L)
        y = F.softmax(sim, dim=-1) @ v
        y = self.out(y.transpose(1, 2).reshape(n, L, C))
        y = from_windows(y, self.w, H, W)
        if self.s:
            y = torch.roll(y, (self.s, self.s), dims=(1, 2))
        return y


class TileStage(nn.Module):
    def __init__(self, dim, heads, depth=2, window=4):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.atts = nn.ModuleList(
            ShiftedTileAttention(dim, heads, window, 0 if i % 2 == 0 else window // 2) for i in range(depth)
        )

    def forward(self, x):
        for n, a in zip(self.norms, self.atts):
            x = x + a(n(x))
        return x
