# Swin V2: cosine attention, log-spaced continuous position bias, res-post-norm. (B, H, W, C) in and out.
import math
import torch
from torch import nn
import torch.nn.functional as F


class CosineWindowAttention(nn.Module):
    def __init__(self, dim, ws, heads):
        super().__init__()
        self.dim, self.ws, self.heads = dim, ws, heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, heads, bias=False))
        r = torch.arange(ws)
        yx = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1).view(-1, 2)
        rel = (yx[:, None] - yx[None, :]).float() / max(ws - 1, 1) * 8
        self.register_buffer("rel", rel.sign() * torch.log2(rel.abs() + 1.0) / math.log2(8))
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        n_win, N, C = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.view(n_win, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)

        # cosine similarity with a learned temperature, at most 100: no 1/sqrt(d) here
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        sim = sim * self.logit_scale.clamp(max=math.log(100.0)).exp()
        sim = sim + 16 * torch.sigmoid(self.cpb(self.rel)).permute(2, 0, 1)
        if mask is not None:
            # windows of an image are contiguous: (B * nW) -> B, nW
            sim = sim.view(-1, mask.size(0), self.heads, N, N)
            sim = sim.masked_fill(mask[:, None], float("-inf")).view(n_win, self.heads, N, N)
        return self.proj((sim.softmax(-1) @ v).transpose(1, 2).reshape(n_win, N, C))


class SwinV2Block(nn.Module):
    def __init__(self, dim, size, heads, ws=4, shift=0):
        super().__init__()
        self.size, self.ws, self.shift = size, ws, shift
        self.attn = CosineWindowAttention(dim, ws, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        if shift:
            H, W = size
            idx_h = torch.zeros(H)
            idx_h[-ws:-shift], idx_h[-shift:] = 1, 2
            idx_w = torch.zeros(W)
            idx_w[-ws:-shift], idx_w[-shift:] = 1, 2
            region = (3 * idx_h[:, None] + idx_w[None, :])[None, ..., None]
            ids = self.to_windows(region).squeeze(-1)
            self.register_buffer("block_mask", ids[:, :, None] != ids[:, None, :])
        else:
            self.block_mask = None

    def to_windows(self, x):
        B, H, W, C = x.shape
        s = self.ws
        return x.reshape(B, H // s, s, W // s, s, C).transpose(2, 3).reshape(-1, s * s, C)

    def from_windows(self, win, B, H, W):
        s = self.ws
        return win.reshape(B, H // s, W // s, s, s, -1).transpose(2, 3).reshape(B, H, W, -1)

    def forward(self, x):
        B, H, W, C = x.shape
        assert (H, W) == tuple(self.size)
        y = x
        if self.shift:
            y = y.roll((-self.shift, -self.shift), dims=(1, 2))
        y = self.from_windows(self.attn(self.to_windows(y), self.block_mask), B, H, W)
        if self.shift:
            y = y.roll((self.shift, self.shift), dims=(1, 2))
        x = x + self.norm1(y)
        return x + self.norm2(self.mlp(x))
