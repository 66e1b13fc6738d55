import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def partition(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def reverse(win, w, H, W):
    B = win.shape[0] // (H * W // w // w)
    x = win.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class WindowAttentionV2(nn.Module):
    """Scaled cosine attention with a log-spaced continuous position bias (Swin V2)."""

    def __init__(self, dim, window, heads):
        super().__init__()
        self.heads, self.window = heads, window
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 128), nn.ReLU(inplace=True),
                                 nn.Linear(128, heads, bias=False))
        r = torch.arange(-(window - 1), window, dtype=torch.float32)
        tab = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1) / max(window - 1, 1) * 8
        tab = torch.sign(tab) * torch.log2(tab.abs() + 1.0) / np.log2(8)
        self.register_buffer("table", tab.view(-1, 2), persistent=False)

        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window),
                                       indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", rel[..., 0] * (2 * window - 1) + rel[..., 1],
                             persistent=False)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, allowed=None):
        # x: (windows*B, N, C); allowed: (windows, N, N) bool or None
        Bw, N, C = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(Bw, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=np.log(1. / 0.01)).exp()
        b = self.cpb(self.table)[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(b).unsqueeze(0)
        if allowed is not None:
            nW = allowed.shape[0]
            attn = attn.view(Bw // nW, nW, self.heads, N, N)
            attn = attn.masked_fill(~allowed[None, :, None], float("-inf"))
            attn = attn.view(Bw, self.heads, N, N)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(Bw, N, C))


class SwinBlockV2(nn.Module):
    def __init__(self, dim, resolution, heads, window=4, shift=0, mlp_ratio=4):
        super().__init__()
        self.H, self.W = resolution
        self.window, self.shift = window, shift
        self.attn = WindowAttentionV2(dim, window, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(),
                                 nn.Linear(dim * mlp_ratio, dim))
        allowed = None
        if shift > 0:
            region = torch.zeros(1, self.H, self.W, 1)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            n = 0
            for hs in cuts:
                for ws in cuts:
                    region[:, hs, ws] = n
                    n += 1
            ids = partition(region, window).squeeze(-1)
            allowed = ids[:, :, None] == ids[:, None, :]
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, x):
        B, L, C = x.shape
        y = x.view(B, self.H, self.W, C)
        if self.shift > 0:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = self.attn(partition(y, self.window), self.allowed)
        y = reverse(y, self.window, self.H, self.W)
        if self.shift > 0:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + self.norm1(y.reshape(B, L, C))      # res-post-norm
        return x + self.norm2(self.mlp(x))
