from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class RiskCfg:
    width: int = 24
    heads: int = 4
    ff: int = 48
    drop: float = 0.1


class PeerRead(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.scale = c.width ** -0.5
        self.qkv = nn.Linear(c.width, 3 * c.width)
        self.proj = nn.Linear(c.width, c.width)
        self.drop = nn.Dropout(c.drop)

    def forward(self, x, void):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * self.scale
        att = att.masked_fill(void[:, None, None, :], torch.finfo(att.dtype).min)
        att = self.drop(att.softmax(dim=-1))
        return self.proj((att @ v).transpose(1, 2).reshape(B, N, C))


class RiskBlock(nn.Module):
    """Pre-norm encoder block over the payments of one card.

    x (B, N, width); void (B, N) bool, True = empty place.
    """

    def __init__(self, cfg: RiskCfg = RiskCfg()):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.read = PeerRead(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.width, cfg.ff), nn.GELU(), nn.Linear(cfg.ff, cfg.width))

    def forward(self, x, void):
        x = x + self.read(self.n1(x), void)
        return x + self.ff(self.n2(x))
