import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    """(B, H, W, C) -> (B * nW, ws * ws, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(windows, ws, H, W):
    B = windows.shape[0] // ((H // ws) * (W // ws))
    x = windows.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class ShiftedCosineWindowAttention(nn.Module):
    """Window attention in the manner of Swin V2: cosine similarity with a learned
    temperature per head (clamped at 100) and a continuous position bias from an MLP on
    log-spaced relative coordinates.

    Input and output are (B, H, W, C); H and W must be multiples of `ws`.
    """

    def __init__(self, dim, ws=4, shift=0, num_heads=4, cpb_hidden=64):
        super().__init__()
        assert 0 <= shift < ws
        self.ws, self.shift, self.num_heads = ws, shift, num_heads
        self.tau = nn.Parameter(torch.full((num_heads, 1, 1), math.log(10.0)))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)
        self.cpb = nn.Sequential(
            nn.Linear(2, cpb_hidden), nn.ReLU(inplace=True),
            nn.Linear(cpb_hidden, num_heads, bias=False),
        )

        r = torch.arange(-(ws - 1), ws, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), dim=-1)
        table = table * 8 / max(ws - 1, 1)
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / math.log2(8)
        self.register_buffer("coords_table", table.view(-1, 2), persistent=False)

        c = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + (ws - 1)
        self.register_buffer("rel_index", rel[..., 0] * (2 * ws - 1) + rel[..., 1], persistent=False)

    def _shift_mask(self, H, W, device):
        """(nW, N, N) True where two pixels of a window come from different regions."""
        region = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        n = 0
        for hs in cuts:
            for wsl in cuts:
                region[:, hs, wsl] = n
                n += 1
        region = window_partition(region, self.ws).squeeze(-1)
        return region[:, None, :] != region[:, :, None]

    def forward(self, x):
        B, H, W, C = x.shape
        s = self.shift
        if s:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        win = window_partition(x, self.ws)
        Bw, N, _ = win.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(win, self.qkv.weight, bias)
        q, k, v = qkv.reshape(Bw, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)

        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        sim = sim * self.tau.clamp(max=math.log(100.0)).exp()
        cpb = self.cpb(self.coords_table)[self.rel_index.view(-1)]
        cpb = 16 * torch.sigmoid(cpb.view(N, N, -1).permute(2, 0, 1))
        sim = sim + cpb

        if s:
            m = self._shift_mask(H, W, x.device)
            sim = sim.view(B, -1, self.num_heads, N, N)
            sim = sim.masked_fill(m[None, :, None], -100.0 * 10).view(Bw, self.num_heads, N, N)

        out = (sim.softmax(dim=-1) @ v).transpose(1, 2).reshape(Bw, N, C)
        out = window_reverse(self.proj(out), self.ws, H, W)
        if s:
            out = torch.roll(out, (s, s), dims=(1, 2))
        return out
