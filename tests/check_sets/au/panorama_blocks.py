"""Gigapixel slide / panorama encoder: attention over many tiles, keys read in blocks to save memory."""
import torch
import torch.nn as nn


def tile(img, size):
    """[B, C, H, W] -> [B, n, C * size * size], row by row."""
    t = img.unfold(2, size, size).unfold(3, size, size)
    return t.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def not_white(tiles, thr=0.95):
    """True where a tile holds tissue."""
    return tiles.mean(-1) < thr


class BlockwiseAttention(nn.Module):
    """Exact softmax attention; memory is O(n * block) and not O(n^2).

    keep: bool [B, n], True = tile may be attended to.
    """

    def __init__(self, dim, heads, block=32):
        super().__init__()
        self.heads, self.block = heads, block
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        B, n, D = x.shape
        dh = D // self.heads
        q, k, v = self.qkv(x).view(B, n, 3, self.heads, dh).permute(2, 0, 3, 1, 4)
        q = q * dh ** -0.5
        top = torch.full((B, self.heads, n, 1), -1e30, dtype=x.dtype, device=x.device)
        den = torch.zeros_like(top)
        num = torch.zeros_like(q)
        for a in range(0, n, self.block):
            kb, vb = k[:, :, a:a + self.block], v[:, :, a:a + self.block]
            s = q @ kb.transpose(-1, -2)
            s = s.masked_fill(~keep[:, None, None, a:a + self.block], float("-inf"))
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            fix = torch.exp(top - new)
            den = den * fix + p.sum(-1, keepdim=True)
            num = num + p @ vb
            top = new
        y = num / den.clamp_min(1e-20)
        return self.out(y.transpose(1, 2).reshape(B, n, D))


class SlideLayer(nn.Module):
    def __init__(self, dim, heads, block):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = BlockwiseAttention(dim, heads, block)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, keep):
        x = x + self.att(self.n1(x), keep)
        return x + self.ff(self.n2(x))


class SlideEncoder(nn.Module):
    def __init__(self, size=16, chans=3, dim=64, heads=4, depth=2, block=32, classes=2):
        super().__init__()
        self.size = size
        self.emb = nn.Linear(chans * size * size, dim)
        self.layers = nn.ModuleList(SlideLayer(dim, heads, block) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        t = tile(img, self.size)
        keep = not_white(t)
        x = self.emb(t)
        for l in self.layers:
            x = l(x, keep)
        w = keep.unsqueeze(-1).to(x.dtype)
        return self.head((x * w).sum(1) / w.sum(1).clamp_min(1))
