"""Window attention of Swin Transformer V2 (cosine attention, bias from an MLP table)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    """(B, H, W, C) -> (num_windows*B, ws*ws, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def shift_mask(H, W, ws, shift):
    """(num_windows, ws*ws, ws*ws), True where two positions come from different image regions."""
    ids = torch.zeros(1, H, W, 1)
    cnt = 0
    cuts = (slice(0, -ws), slice(-ws, -shift), slice(-shift, None))
    for hs in cuts:
        for wsl in cuts:
            ids[:, hs, wsl, :] = cnt
            cnt += 1
    win = window_partition(ids, ws).squeeze(-1)
    return win[:, None, :] != win[:, :, None]


class WindowAttention(nn.Module):
    """
    Args:
        dim, window_size, num_heads
    forward:
        x: (num_windows*B, N, C) with N = window_size**2, windows of one image are adjacent
        mask: None or bool (num_windows, N, N), True = the pair may not attend
    """

    def __init__(self, dim=32, window_size=4, num_heads=4):
        super().__init__()
        self.ws, self.num_heads = window_size, num_heads
        # exp() of this is a temperature that multiplies the cosine
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(num_heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, num_heads, bias=False))

        r = torch.arange(-(window_size - 1), window_size, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1)
        table = 8 * table / max(window_size - 1, 1)
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / math.log2(8)
        self.register_buffer("coords_table", table.view(-1, 2), persistent=False)

        c = torch.arange(window_size)
        c = torch.stack(torch.meshgrid(c, c, indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + window_size - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * window_size - 1) + rel[..., 1], persistent=False)

        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        Bw, N, C = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, bias)
        qkv = qkv.reshape(Bw, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]

        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(100.0)).exp()

        rpb = self.cpb_mlp(self.coords_table)[self.rel_index.view(-1)].view(N, N, -1)
        attn = attn + 16 * torch.sigmoid(rpb.permute(2, 0, 1)).unsqueeze(0)

        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(Bw // nW, nW, self.num_heads, N, N)
            attn = attn.masked_fill(mask[None, :, None], float("-inf"))
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(dim=-1)

        x = (attn @ v).transpose(1, 2).reshape(Bw, N, C)
        return self.proj(x)
