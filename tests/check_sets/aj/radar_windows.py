"""Window attention for polar radar volumes. A scan is azimuth x range; windows are wide in range
(default 4 azimuth x 8 range) because bins are short there."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    """[B, H, W, C] -> [B*nW, wh*ww, C]"""
    B, H, W, C = x.shape
    x = x.view(B, H // ws[0], ws[0], W // ws[1], ws[1], C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws[0] * ws[1], C)


def window_reverse(win, ws, H, W):
    B = win.shape[0] // ((H // ws[0]) * (W // ws[1]))
    x = win.view(B, H // ws[0], W // ws[1], ws[0], ws[1], -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class WindowAttention(nn.Module):
    """Swin window attention with one learned bias per head and per relative offset (dy, dx):
    pairs of cells at the same offset share a bias, pairs at different offsets do not."""

    def __init__(self, dim, window_size, num_heads, qkv_bias=True, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.window_size = window_size      # Wh, Ww
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(
            torch.zeros((2 * window_size[0] - 1) * (2 * window_size[1] - 1), num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=.02)

        coords_h = torch.arange(window_size[0])
        coords_w = torch.arange(window_size[1])
        coords = torch.stack(torch.meshgrid(coords_h, coords_w, indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += window_size[0] - 1
        rel[:, :, 1] += window_size[1] - 1
        rel[:, :, 0] *= 2 * window_size[0] - 1
        self.register_buffer("relative_position_index", rel.sum(-1))

        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, mask=None):
        """x [num_windows*B, N, C]; mask additive (0/-100) [num_windows, N, N] or None"""
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)

        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        bias = bias.view(N, N, self.num_heads).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj_drop(self.proj(x))


class RadarBlock(nn.Module):
    """azimuth wraps around, so a shift needs a mask only along range"""

    def __init__(self, dim, size, num_heads, window_size=(4, 8), shift=False):
        super().__init__()
        self.size, self.ws = size, window_size
        self.shift = (window_size[0] // 2, window_size[1] // 2) if shift else (0, 0)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window_size, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mask = None
        if shift:
            H, W = size
            region = torch.zeros(1, H, W, 1)
            region[:, :, -self.shift[1]:] = 1
            r = window_partition(region, self.ws).squeeze(-1)
            mask = torch.where(r.unsqueeze(1) == r.unsqueeze(2), 0.0, -100.0)
        self.register_buffer("mask", mask)

    def forward(self, x):
        B, L, C = x.shape
        H, W = self.size
        h = self.norm1(x).view(B, H, W, C)
        if any(self.shift):
            h = torch.roll(h, (-self.shift[0], -self.shift[1]), (1, 2))
        w = self.attn(window_partition(h, self.ws), self.mask)
        h = window_reverse(w, self.ws, H, W)
        if any(self.shift):
            h = torch.roll(h, self.shift, (1, 2))
        x = x + h.reshape(B, L, C)
        return x + self.mlp(self.norm2(x))


class RadarNowcaster(nn.Module):
    def __init__(self, size=(32, 64), frames=6, lead=6, dim=48, depth=4, heads=4):
        super().__init__()
        self.size = size
        self.inp = nn.Conv2d(frames, dim, 3, padding=1)
        self.blocks = nn.ModuleList([RadarBlock(dim, size, heads, shift=i % 2 == 1) for i in range(depth)])
        self.out = nn.Conv2d(dim, lead, 3, padding=1)

    def forward(self, dbz):
        x = self.inp(dbz).flatten(2).transpose(1, 2)
        for b in self.blocks:
            x = b(x)
        x = x.transpose(1, 2).reshape(dbz.size(0), -1, *self.size)
        return F.relu(self.out(x))
