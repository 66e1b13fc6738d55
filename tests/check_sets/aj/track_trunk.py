"""Sequence -> coverage track model, a slimmed Enformer for 32 kb yeast windows.

    one-hot DNA  [B, 4, S]
      -> conv tower (each stage halves the length)
      -> n transformer blocks with relative positions
      -> track head                [B, S / 2**stages, n_tracks]
"""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class TrunkConfig:
    channels: int = 96
    stages: int = 5
    depth: int = 4
    heads: int = 4
    dim_key: int = 24
    dim_value: int = 24
    n_rel_features: int = 16
    attn_dropout: float = 0.05
    pos_dropout: float = 0.01
    n_tracks: int = 12


def relative_basis(length, n_features, device=None, dtype=torch.float32):
    """Features of the distances -(L-1) .. L-1 (key index minus query index).

    Half of the columns are symmetric exponentials with half lives between 3
    and L bins, the other half the same times the sign of the distance.
    """
    assert n_features % 2 == 0
    distance = torch.arange(-length + 1, length, device=device, dtype=dtype)
    half_life = 2 ** torch.linspace(math.log2(3.0), math.log2(max(length, 4)), n_features // 2,
                                    device=device, dtype=dtype)
    decay = torch.exp(-math.log(2.0) * distance.abs()[:, None] / half_life[None, :])
    return torch.cat([decay, decay * torch.sign(distance)[:, None]], dim=-1)


def relative_shift(x):
    """[B, H, L, 2L-1] indexed by distance -> [B, H, L, L] indexed by key."""
    b, h, t1, t2 = x.shape
    x = torch.cat([torch.zeros_like(x[..., :1]), x], dim=-1)
    x = x.reshape(b, h, t2 + 1, t1)[:, :, 1:, :]
    x = x.reshape(b, h, t1, t2)
    return x[..., : (t2 + 1) // 2]


class RelativeAttention(nn.Module):
    def __init__(self, cfg: TrunkConfig):
        super().__init__()
        c, h = cfg.channels, cfg.heads
        self.heads, self.dk, self.dv = h, cfg.dim_key, cfg.dim_value
        self.n_rel = cfg.n_rel_features

        self.to_q = nn.Linear(c, h * self.dk, bias=False)
        self.to_k = nn.Linear(c, h * self.dk, bias=False)
        self.to_v = nn.Linear(c, h * self.dv, bias=False)
        self.to_rel_k = nn.Linear(self.n_rel, h * self.dk, bias=False)
        self.to_out = nn.Linear(h * self.dv, c)

        self.rel_content_bias = nn.Parameter(torch.randn(1, h, 1, self.dk) * 0.02)
        self.rel_pos_bias = nn.Parameter(torch.randn(1, h, 1, self.dk) * 0.02)
        self.attn_drop = nn.Dropout(cfg.attn_dropout)
        self.pos_drop = nn.Dropout(cfg.pos_dropout)

    def _heads(self, t, d):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, d).permute(0, 2, 1, 3)

    def forward(self, x):
        b, n, _ = x.shape
        q = self._heads(self.to_q(x), self.dk) * self.dk ** -0.5
        k = self._heads(self.to_k(x), self.dk)
        v = self._heads(self.to_v(x), self.dv)

        content = torch.einsum("bhid,bhjd->bhij", q + self.rel_content_bias, k)

        pos = self.pos_drop(relative_basis(n, self.n_rel, x.device, x.dtype))
        rel_k = self.to_rel_k(pos).view(2 * n - 1, self.heads, self.dk)
        rel = torch.einsum("bhid,mhd->bhim", q + self.rel_pos_bias, rel_k)

        attn = (content + relative_shift(rel)).softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bhid", self.attn_drop(attn), v)
        return self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, -1))


class ConvStage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm = nn.BatchNorm1d(cin)
        self.conv = nn.Conv1d(cin, cout, 5, padding=2)

    def forward(self, x):
        return F.max_pool1d(self.conv(F.gelu(self.norm(x))), 2)


class Trunk(nn.Module):
    def __init__(self, cfg: TrunkConfig):
        super().__init__()
        self.stem = nn.Conv1d(4, cfg.channels, 15, padding=7)
        self.tower = nn.Sequential(*[ConvStage(cfg.channels, cfg.channels) for _ in range(cfg.stages)])
        self.attn_norms = nn.ModuleList([nn.LayerNorm(cfg.channels) for _ in range(cfg.depth)])
        self.attns = nn.ModuleList([RelativeAttention(cfg) for _ in range(cfg.depth)])
        self.ffs = nn.ModuleList([
            nn.Sequential(nn.LayerNorm(cfg.channels), nn.Linear(cfg.channels, 2 * cfg.channels), nn.ReLU(),
                          nn.Linear(2 * cfg.channels, cfg.channels))
            for _ in range(cfg.depth)])
        self.head = nn.Linear(cfg.channels, cfg.n_tracks)

    def forward(self, onehot):
        x = self.tower(self.stem(onehot)).transpose(1, 2)
        for norm, attn, ff in zip(self.attn_norms, self.attns, self.ffs):
            x = x + attn(norm(x))
            x = x + ff(x)
        return F.softplus(self.head(x))


if __name__ == "__main__":
    model = Trunk(TrunkConfig()).eval()
    dna = F.one_hot(torch.randint(0, 4, (2, 2048)), 4).float().transpose(1, 2)
    print(model(dna).shape)
