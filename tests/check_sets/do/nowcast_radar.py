"""Precipitation nowcasting from radar composites.

Input   frames  (B, T, 1, H, W)  rain rate in mm/h, log1p-scaled, H and W divisible by 4
Output          (B, T, 1, H, W)  entry t is the forecast of frame t+1

The network is a per-frame conv encoder, a stack of temporal mixers (every
coarse pixel attends over its own past, multi-head scaled dot-product,
present frame included, future excluded) and a per-frame conv decoder.
The forecast at t therefore depends on frames 0..t only.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TemporalMixer(nn.Module):
    def __init__(self, ch, heads, max_len=48):
        super().__init__()
        assert ch % heads == 0
        self.heads = heads
        self.norm = nn.LayerNorm(ch)
        self.age = nn.Parameter(0.02 * torch.randn(max_len, ch))
        self.qkv = nn.Linear(ch, 3 * ch)
        self.out = nn.Linear(ch, ch)

    def forward(self, z):
        B, T, C, h, w = z.shape
        x = z.permute(0, 3, 4, 1, 2).reshape(B * h * w, T, C)      # one sequence per pixel
        qkv = self.qkv(self.norm(x) + self.age[:T])
        q, k, v = qkv.view(-1, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(-1, T, C))
        return x.reshape(B, h, w, T, C).permute(0, 3, 4, 1, 2)


class RadarNowcaster(nn.Module):
    def __init__(self, ch=16, heads=4, depth=2):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, ch, 4, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(ch, ch, 4, stride=2, padding=1), nn.GELU())
        self.mix = nn.ModuleList([TemporalMixer(ch, heads) for _ in range(depth)])
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(ch, ch, 4, stride=2, padding=1), nn.GELU(),
            nn.ConvTranspose2d(ch, 1, 4, stride=2, padding=1))

    def forward(self, frames):
        B, T = frames.shape[:2]
        z = self.enc(frames.flatten(0, 1))
        z = z.unflatten(0, (B, T))
        for m in self.mix:
            z = m(z)
        return self.dec(z.flatten(0, 1)).unflatten(0, (B, T)) + frames
