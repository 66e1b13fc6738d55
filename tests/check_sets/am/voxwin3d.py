"""Windowed attention for voxel grids / clips (3-D, Swin style) with a relative position bias.

The bias table has one row per 3-D offset (dz, dy, dx) between two voxels of a window, that is
(2*wz-1)*(2*wy-1)*(2*wx-1) rows.
"""
import torch
import torch.nn as nn


def partition(x, w):
    B, D, H, W, C = x.shape
    x = x.view(B, D // w[0], w[0], H // w[1], w[1], W // w[2], w[2], C)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, w[0] * w[1] * w[2], C)


def merge(win, w, B, D, H, W):
    x = win.view(B, D // w[0], H // w[1], W // w[2], *w, -1)
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(B, D, H, W, -1)


def shift_mask(D, H, W, w, s):
    """[n_windows, N, N] bool, True where two voxels belong to different regions after the roll"""
    ids = torch.zeros(1, D, H, W, 1)
    n = 0
    cuts = lambda a, b: (slice(-a), slice(-a, -b), slice(-b, None)) if b else (slice(None),)
    for d in cuts(w[0], s[0]):
        for h in cuts(w[1], s[1]):
            for x in cuts(w[2], s[2]):
                ids[:, d, h, x] = n
                n += 1
    r = partition(ids, w).squeeze(-1)
    return r[:, None, :] != r[:, :, None]


class WindowAttention3D(nn.Module):
    def __init__(self, dim, window, heads):
        super().__init__()
        self.window, self.heads, self.scale = window, heads, (dim // heads) ** -0.5
        wz, wy, wx = window
        self.bias_table = nn.Parameter(torch.zeros((2 * wz - 1) * (2 * wy - 1) * (2 * wx - 1), heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        grid = torch.stack(torch.meshgrid(torch.arange(wz), torch.arange(wy), torch.arange(wx), indexing="ij"))
        flat = grid.flatten(1)
        rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
        rel[..., 0] += wz - 1
        rel[..., 1] += wy - 1
        rel[..., 2] += wx - 1
        rel[..., 0] *= 2 * wy - 1
        rel[..., 1] *= 2 * wx - 1
        self.register_buffer("rel_index", rel.sum(-1))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        Bn, N, C = x.shape
        q, k, v = self.qkv(x).reshape(Bn, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-2, -1)
        a = a + self.bias_table[self.rel_index.flatten()].view(N, N, -1).permute(2, 0, 1)
        if mask is not None:
            n = mask.shape[0]
            a = a.view(Bn // n, n, self.heads, N, N).masked_fill(mask[None, :, None], -1e4).view(Bn, self.heads, N, N)
        return self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(Bn, N, C))


class VoxBlock(nn.Module):
    def __init__(self, dim, heads, window=(2, 4, 4), shift=(0, 0, 0)):
        super().__init__()
        self.w, self.s = window, shift
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention3D(dim, window, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        """x [B, D, H, W, C], sizes divisible by the window"""
        B, D, H, W, _ = x.shape
        y, mask = self.n1(x), None
        if any(self.s):
            y = y.roll([-i for i in self.s], (1, 2, 3))
            mask = shift_mask(D, H, W, self.w, self.s).to(x.device)
        y = merge(self.attn(partition(y, self.w), mask), self.w, B, D, H, W)
        if any(self.s):
            y = y.roll(self.s, (1, 2, 3))
        x = x + y
        return x + self.mlp(self.n2(x))
