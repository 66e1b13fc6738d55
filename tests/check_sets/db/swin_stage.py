"""Shifted-window attention of one Swin stage, on channel-first feature maps."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class StageConfig:
    width: int = 24
    heads: int = 3
    side: int = 4      # window side, in pixels
    shift: int = 2     # 0 <= shift < side


class WindowMixer(nn.Module):
    """x: (B, width, H, W) -> same shape.  H and W are multiples of cfg.side.

    The map is rolled up-left by `shift`, cut into windows, and rolled back.
    Pixels that only became neighbours by wrapping round do not see each other.
    """

    def __init__(self, cfg: StageConfig = StageConfig()):
        super().__init__()
        self.cfg = cfg
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.proj = nn.Linear(cfg.width, cfg.width)
        span = 2 * cfg.side - 1
        self.table = nn.Parameter(0.5 * torch.randn(span * span, cfg.heads))
        r = torch.arange(cfg.side)
        grid = torch.stack(torch.meshgrid(r, r, indexing="ij")).flatten(1)
        rel = grid[:, :, None] - grid[:, None, :] + cfg.side - 1
        self.register_buffer("index", rel[0] * span + rel[1], persistent=False)

    def _zones(self, n):
        z = torch.zeros(n, dtype=torch.long)
        z[n - self.cfg.side:] = 1
        if self.cfg.shift:
            z[n - self.cfg.shift:] = 2
        return z

    def _cut(self, t):
        B, H, W, C = t.shape
        s = self.cfg.side
        t = t.reshape(B, H // s, s, W // s, s, C).transpose(2, 3)
        return t.reshape(B, (H // s) * (W // s), s * s, C)

    def forward(self, x):
        B, C, H, W = x.shape
        s, sh, h = self.cfg.side, self.cfg.shift, self.cfg.heads
        if H % s or W % s:
            raise ValueError("feature map must tile into windows")
        t = torch.roll(x.permute(0, 2, 3, 1), (-sh, -sh), (1, 2))
        win = self._cut(t)                                        # B, nw, N, C
        nw, N = win.shape[1:3]
        q, k, v = self.qkv(win).view(B, nw, N, 3, h, C // h).permute(3, 0, 1, 4, 2, 5)
        logits = (q * (C // h) ** -0.5) @ k.transpose(-1, -2)     # B, nw, h, N, N
        logits = logits + self.table[self.index].permute(2, 0, 1)
        if sh:
            zone = self._zones(H)[:, None] * 3 + self._zones(W)[None, :]
            zone = self._cut(zone[None, :, :, None])[0, :, :, 0].to(x.device)
            foreign = zone[:, :, None] != zone[:, None, :]
            logits = logits.masked_fill(foreign[None, :, None], float("-inf"))
        out = (logits.softmax(-1) @ v).transpose(2, 3).reshape(B, nw, N, C)
        out = self.proj(out)
        out = out.view(B, H // s, W // s, s, s, C).transpose(2, 3).reshape(B, H, W, C)
        return torch.roll(out, (sh, sh), (1, 2)).permute(0, 3, 1, 2)
