import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Settings:
    look_back: int = 48
    horizon: int = 12
    patch: int = 8
    stride: int = 4
    width: int = 32
    heads: int = 4
    depth: int = 2
    dropout: float = 0.1


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.heads
        self.temperature = math.sqrt(cfg.width)
        self.W_Q = nn.Linear(cfg.width, cfg.width)
        self.W_K = nn.Linear(cfg.width, cfg.width)
        self.W_V = nn.Linear(cfg.width, cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, z):
        b, n, w = z.shape
        q = self.W_Q(z).view(b, n, self.h, -1).permute(0, 2, 1, 3)
        k = self.W_K(z).view(b, n, self.h, -1).permute(0, 2, 3, 1)
        v = self.W_V(z).view(b, n, self.h, -1).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k) / self.temperature
        p = self.drop(torch.softmax(scores, dim=-1))
        z = torch.matmul(p, v).permute(0, 2, 1, 3).contiguous().view(b, n, w)
        return self.out(z)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = SelfAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.width, 64), nn.GELU(), nn.Dropout(cfg.dropout), nn.Linear(64, cfg.width))
        self.na, self.nb = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)

    def forward(self, z):
        z = self.na(z + self.attn(z))
        return self.nb(z + self.ff(z))


class PatchForecaster(nn.Module):
    """Channel-independent: every variable of (batch, look_back, variables) is a series of its own."""

    def __init__(self, cfg: Settings):
        super().__init__()
        self.cfg = cfg
        n = (cfg.look_back - cfg.patch) // cfg.stride + 2
        self.embed = nn.Linear(cfg.patch, cfg.width)
        self.place = nn.Parameter(torch.empty(n, cfg.width).uniform_(-0.02, 0.02))
        self.layers = nn.Sequential(*[Layer(cfg) for _ in range(cfg.depth)])
        self.head = nn.Linear(n * cfg.width, cfg.horizon)

    def forward(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt().detach()
        s = ((x - mean) / std).transpose(1, 2)                       # b, vars, time
        s = nn.functional.pad(s, (0, self.cfg.stride), mode="replicate")
        z = self.embed(s.unfold(-1, self.cfg.patch, self.cfg.stride)) + self.place
        b, m, n, w = z.shape
        z = self.layers(z.reshape(b * m, n, w)).reshape(b, m, n * w)
        return self.head(z).transpose(1, 2) * std + mean


if __name__ == "__main__":
    torch.manual_seed(0)
    model = PatchForecaster(Settings()).eval()
    print(model(torch.randn(2, 48, 3).cumsum(1)).shape)
