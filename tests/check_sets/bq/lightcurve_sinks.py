"""Vetting network for transit candidates (folded light curves, 2-minute cadence).

Flux and its error go through a small convolution, then through ``depth`` blocks.
Cloudy nights give stretches where *no* exposure is worth looking at, so every
head owns a learned "look nowhere" logit: it takes part in the normalisation
but carries no value, hence the rows of the map sum to less than one.
"""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

BAD_BITS = 0b0000_1011_0101   # spacecraft quality flags that we reject


@dataclass(frozen=True)
class VetterConfig:
    width: int = 48
    heads: int = 4
    depth: int = 2
    kernel: int = 5

    @property
    def per_head(self) -> int:
        return self.width // self.heads


def good_exposures(quality: Tensor) -> Tensor:
    """bool, True where the exposure may be used."""
    return (quality & BAD_BITS) == 0


class NowhereAttention(nn.Module):
    """Self-attention over exposures. ``good`` is True for exposures to attend to."""

    def __init__(self, cfg: VetterConfig):
        super().__init__()
        self.cfg = cfg
        self.to_q = nn.Linear(cfg.width, cfg.width, bias=False)
        self.to_k = nn.Linear(cfg.width, cfg.width, bias=False)
        self.to_v = nn.Linear(cfg.width, cfg.width, bias=False)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.nowhere = nn.Parameter(torch.randn(cfg.heads) * 0.5)

    def _heads(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.cfg.heads, self.cfg.per_head)).transpose(-3, -2)

    def forward(self, flux: Tensor, good: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        q, k, v = self._heads(self.to_q(flux)), self._heads(self.to_k(flux)), self._heads(self.to_v(flux))
        logits = torch.einsum("bhid,bhjd->bhij", q, k).float() / self.cfg.per_head ** 0.5
        if good is not None:
            logits = logits.masked_fill(~good[:, None, None, :], float("-inf"))
        sink = self.nowhere.float()[None, :, None, None].expand(*logits.shape[:3], 1)
        full = torch.cat([sink, logits], dim=-1).softmax(dim=-1)
        weights = full[..., 1:].to(v.dtype)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        return self.out(mixed), weights


class Block(nn.Module):
    def __init__(self, cfg: VetterConfig):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.att = NowhereAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.width, 2 * cfg.width), nn.GELU(), nn.Linear(2 * cfg.width, cfg.width))

    def forward(self, x, good=None):
        x = x + self.att(self.n1(x), good)[0]
        return x + self.ff(self.n2(x))


class TransitVetter(nn.Module):
    def __init__(self, cfg: VetterConfig = VetterConfig()):
        super().__init__()
        self.stem = nn.Conv1d(2, cfg.width, cfg.kernel, padding=cfg.kernel // 2)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.depth))
        self.score = nn.Linear(cfg.width, 1)

    def forward(self, flux: Tensor, err: Tensor, quality: Tensor) -> Tensor:
        good = good_exposures(quality)
        x = self.stem(torch.stack([flux, err], dim=1)).transpose(1, 2)
        for b in self.blocks:
            x = b(x, good)
        keep = good.unsqueeze(-1).to(x.dtype)
        pooled = (x * keep).sum(1) / keep.sum(1).clamp_min(1.0)
        return self.score(pooled).squeeze(-1)
