# BirdCLEF, solution of the second account (private LB 0.61), cleaned up after the deadline.
# Mel patches -> token mixing by a 2-D FFT (FNet, Lee-Thorp et al. 2021) -> max/mean pooling.

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class CFG:
    n_mels = 64
    frames = 256
    patch = (16, 16)
    dim = 128
    depth = 6
    n_species = 182
    drop = 0.1


class FourierMixer(nn.Module):
    """stands where the attention layer of the encoder stood; same signature, the mask is used
    to silence padded patches before they are mixed"""

    def __init__(self, dim, num_heads=None):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, key_padding_mask=None):
        if key_padding_mask is not None:
            x = x.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        y = torch.fft.fft2(x.float(), dim=(-2, -1), norm="ortho").real.to(x.dtype)
        return self.proj(y)


class MixBlock(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.mix = FourierMixer(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(drop), nn.Linear(4 * dim, dim))
        self.drop = nn.Dropout(drop)

    def forward(self, x, pad=None):
        x = x + self.drop(self.mix(self.norm1(x), pad))
        return x + self.drop(self.mlp(self.norm2(x)))


class MelPatches(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv = nn.Conv2d(1, cfg.dim, cfg.patch, cfg.patch)
        n = (cfg.n_mels // cfg.patch[0]) * (cfg.frames // cfg.patch[1])
        self.pos = nn.Parameter(torch.randn(1, n, cfg.dim) * 0.02)

    def forward(self, mel):
        return self.conv(mel.unsqueeze(1)).flatten(2).transpose(1, 2) + self.pos


class BirdNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.cfg = cfg
        self.patches = MelPatches(cfg)
        self.blocks = nn.ModuleList([MixBlock(cfg.dim, cfg.drop) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.fc = nn.Linear(2 * cfg.dim, cfg.n_species)

    def forward(self, mel, n_frames=None):
        """mel [B, n_mels, frames]; n_frames [B] real frames, the rest is padding"""
        x = self.patches(mel)
        pad = None
        if n_frames is not None:
            cols = self.cfg.frames // self.cfg.patch[1]
            last = torch.div(n_frames + self.cfg.patch[1] - 1, self.cfg.patch[1], rounding_mode="floor")
            pad = torch.arange(cols, device=mel.device)[None] >= last[:, None]
            pad = pad.repeat(1, self.cfg.n_mels // self.cfg.patch[0])
        for b in self.blocks:
            x = b(x, pad)
        x = self.norm(x)
        return self.fc(torch.cat([x.amax(1), x.mean(1)], -1))


def spec_augment(mel, n_time=2, n_freq=2, max_t=32, max_f=8):
    mel = mel.clone()
    for _ in range(n_time):
        t = int(torch.randint(1, max_t, ()))
        s = int(torch.randint(0, mel.size(-1) - t, ()))
        mel[..., s:s + t] = mel.mean()
    for _ in range(n_freq):
        f = int(torch.randint(1, max_f, ()))
        s = int(torch.randint(0, mel.size(-2) - f, ()))
        mel[..., s:s + f, :] = mel.mean()
    return mel


def focal_bce(logits, y, gamma=2.0, smooth=0.01):
    y = y * (1 - smooth) + smooth / 2
    p = torch.sigmoid(logits)
    w = torch.where(y > 0.5, 1 - p, p) ** gamma
    return (w * F.binary_cross_entropy_with_logits(logits, y, reduction="none")).mean()


def cosine_lr(step, total, base=1e-3, warm=200):
    if step < warm:
        return base * step / warm
    return base * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(total - warm, 1)))
