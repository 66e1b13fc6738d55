import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    b, h, ww, c = x.shape
    x = x.view(b, h // w, w, ww // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def from_windows(win, w, h, ww):
    c = win.shape[-1]
    x = win.view(-1, h // w, ww // w, w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, ww, c)


def shift_mask(h, ww, w, s):
    """(nW, w*w, w*w) bool, True = the two pixels were not neighbours before the roll."""
    region = torch.zeros(1, h, ww, 1)
    n = 0
    for hs in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for ws in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            region[:, hs, ws] = n
            n += 1
    r = to_windows(region, w).squeeze(-1)
    return r[:, None, :] != r[:, :, None]


class CosineWindowAttention(nn.Module):
    """Scaled cosine attention with a continuous relative position bias (Swin V2)."""

    def __init__(self, dim, window=4, heads=3, shift=0, max_scale=100.):
        super().__init__()
        assert 0 <= shift < window
        self.w, self.nh, self.s = window, heads, shift
        self.log_max = math.log(max_scale)
        self.tau = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)
        self.cpb = nn.Sequential(nn.Linear(2, 64), nn.ReLU(inplace=True), nn.Linear(64, heads, bias=False))

        g = torch.arange(-(window - 1), window, dtype=torch.float32)
        t = torch.stack(torch.meshgrid(g, g, indexing='ij'), -1)
        t = t / max(window - 1, 1) * 8
        t = torch.sign(t) * torch.log2(t.abs() + 1.0) / 3.0
        self.register_buffer('coords', t, persistent=False)
        p = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing='ij')).flatten(1)
        rel = p[:, :, None] - p[:, None, :] + window - 1
        self.register_buffer('index', rel[0] * (2 * window - 1) + rel[1], persistent=False)

    def bias(self):
        tab = self.cpb(self.coords).view(-1, self.nh)
        b = tab[self.index.view(-1)].view(self.w ** 2, self.w ** 2, self.nh)
        return 16 * torch.sigmoid(b.permute(2, 0, 1))

    def forward(self, x):
        """x: (B, H, W, C), H and W multiples of the window"""
        B, H, W, C = x.shape
        if self.s:
            x = torch.roll(x, (-self.s, -self.s), (1, 2))
        win = to_windows(x, self.w)
        n = win.shape[1]
        b = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(win, self.qkv.weight, b).reshape(-1, n, 3, self.nh, C // self.nh)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        a = a * self.tau.clamp(max=self.log_max).exp() + self.bias().unsqueeze(0)
        if self.s:
            m = shift_mask(H, W, self.w, self.s).to(x.device)
            a = a.view(B, m.shape[0], self.nh, n, n) - 100. * m[None, :, None]
            a = a.view(-1, self.nh, n, n)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, C)
        y = from_windows(self.proj(y), self.w, H, W)
        if self.s:
            y = torch.roll(y, (self.s, self.s), (1, 2))
        return y
