"""Shifted-window transformer block (Swin), channels last.

Attention is confined to M x M windows.  When the map is rolled, positions of a
window that come from different regions of the image must not see each other.
"""
import torch
import torch.nn as nn


def to_windows(x, m):
    """[B, H, W, C] -> [B * nW, m*m, C]"""
    b, h, w, c = x.shape
    x = x.view(b, h // m, m, w // m, m, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, c)


def from_windows(win, m, h, w):
    b = win.shape[0] // ((h // m) * (w // m))
    x = win.view(b, h // m, w // m, m, m, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class SwinBlock(nn.Module):
    def __init__(self, dim=24, num_heads=3, window=4, shift=2, mlp_ratio=2):
        super().__init__()
        self.m, self.shift, self.nh = window, shift, num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim)
        )
        self.bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, num_heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        yx = yx.flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + window - 1
        self.register_buffer("bias_index", rel[0] * (2 * window - 1) + rel[1])

    def region_mask(self, h, w, device):
        """True where two places of a window may see each other, [nW, N, N]."""
        label = torch.zeros(1, h, w, 1, device=device)
        n = 0
        cuts = (slice(0, -self.m), slice(-self.m, -self.shift), slice(-self.shift, None))
        for a in cuts:
            for c in cuts:
                label[:, a, c] = n
                n += 1
        flat = to_windows(label, self.m).squeeze(-1)
        return flat[:, :, None] == flat[:, None, :]

    def attend(self, win, allowed):
        bw, n, c = win.shape
        q, k, v = self.qkv(win).reshape(bw, n, 3, self.nh, -1).permute(2, 0, 3, 1, 4)
        s = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.bias_table[self.bias_index.view(-1)].view(n, n, self.nh)
        s = s + bias.permute(2, 0, 1)
        if allowed is not None:
            nw = allowed.shape[0]
            s = s.view(bw // nw, nw, self.nh, n, n)
            s = s.masked_fill(~allowed[None, :, None], float("-inf"))
            s = s.view(bw, self.nh, n, n)
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).reshape(bw, n, c))

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.norm1(x)
        allowed = None
        if self.shift:
            y = y.roll((-self.shift, -self.shift), (1, 2))
            allowed = self.region_mask(h, w, x.device)
        y = from_windows(self.attend(to_windows(y, self.m), allowed), self.m, h, w)
        if self.shift:
            y = y.roll((self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))
