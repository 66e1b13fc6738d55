"""tabscribe: from a recorded guitar track to tablature tokens.

The token decoder uses *differential* attention (two softmax maps per head,
the second one subtracted) because sympathetic string resonance gives us a
floor of useless weight on old notes, and the subtraction removes it.

Everything here is causal: a tab token only ever sees itself and the past.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

STANDARD_TUNING = (40, 45, 50, 55, 59, 64)  # MIDI, low E to high e
N_FRETS = 24


@dataclass(frozen=True)
class TabConfig:
    vocab: int = len(STANDARD_TUNING) * (N_FRETS + 1) + 3
    width: int = 48
    heads: int = 3
    layers: int = 2
    max_len: int = 512


def tab_token(string: int, fret: int) -> int:
    """0, 1, 2 are <pad>, <bar>, <rest>; then string-major."""
    return 3 + string * (N_FRETS + 1) + fret


def lambda_start(depth: int) -> float:
    # the schedule of the Diff Transformer paper, depth counted from 0
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffAttention(nn.Module):
    """H heads; each owns two query/key pairs of size ``hd`` and one value of 2*hd.

    out_h = (1 - l0) * RMSNorm( (softmax(q1 k1^T/sqrt(hd)) - lam * softmax(q2 k2^T/sqrt(hd))) v )
    """

    def __init__(self, cfg: TabConfig, depth: int):
        super().__init__()
        assert cfg.width % (2 * cfg.heads) == 0
        self.h = cfg.heads
        self.hd = cfg.width // cfg.heads // 2
        self.to_q = nn.Linear(cfg.width, cfg.width, bias=False)
        self.to_k = nn.Linear(cfg.width, cfg.width, bias=False)
        self.to_v = nn.Linear(cfg.width, cfg.width, bias=False)
        self.to_o = nn.Linear(cfg.width, cfg.width, bias=False)
        self.l0 = lambda_start(depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(torch.randn(self.hd) * 0.1) for _ in range(4)
        )
        self.subln = nn.Parameter(torch.ones(2 * self.hd))

    def _headnorm(self, o: torch.Tensor) -> torch.Tensor:
        return o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * self.subln

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q = self.to_q(x).view(b, t, self.h, 2, self.hd).permute(0, 2, 3, 1, 4)
        k = self.to_k(x).view(b, t, self.h, 2, self.hd).permute(0, 2, 3, 1, 4)
        v = self.to_v(x).view(b, t, self.h, 2 * self.hd).transpose(1, 2)

        s = (q @ k.mT) * self.hd ** -0.5                       # b h 2 t t
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        maps = F.softmax(s.masked_fill(future, float("-inf")).float(), dim=-1).to(v.dtype)

        lam = (self.lq1 * self.lk1).sum().exp() - (self.lq2 * self.lk2).sum().exp() + self.l0
        diff = maps[:, :, 0] - lam * maps[:, :, 1]
        o = self._headnorm(diff @ v) * (1.0 - self.l0)
        return self.to_o(o.transpose(1, 2).reshape(b, t, -1))


class TabDecoder(nn.Module):
    def __init__(self, cfg: TabConfig = TabConfig()):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.width, padding_idx=0)
        self.pos = nn.Embedding(cfg.max_len, cfg.width)
        self.att = nn.ModuleList(DiffAttention(cfg, i) for i in range(cfg.layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(cfg.width) for _ in range(cfg.layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(cfg.width) for _ in range(cfg.layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(cfg.width, 4 * cfg.width), nn.SiLU(), nn.Linear(4 * cfg.width, cfg.width))
            for _ in range(cfg.layers)
        )

    def forward(self, ids: torch.Tensor, audio: torch.Tensor) -> torch.Tensor:
        """ids [b, t]; audio [b, t, width] - one pooled spectrogram frame per token."""
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]] + audio
        for att, ff, a, c in zip(self.att, self.ff, self.n1, self.n2):
            x = x + att(a(x))
            x = x + ff(c(x))
        return x @ self.tok.weight.T
