"""
Swarm prediction from hive microphones.

Spectrogram frames of one evening form a sequence; recordings differ in length and
are padded at the end.
"""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class HiveConfig:
    n_mels: int = 40
    d_model: int = 32
    n_heads: int = 4
    n_layers: int = 2
    p_drop: float = 0.1
    piping_hz: tuple = (350, 500)       # tooting and quacking of queens


def band_energy(spec, freqs, band):
    lo, hi = band
    pick = (freqs >= lo) & (freqs < hi)
    return spec[..., pick].pow(2).mean(-1)


def sinusoids(length, dim):
    pos = torch.arange(length, dtype=torch.float).unsqueeze(1)
    div = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(pos * div)
    table[:, 1::2] = torch.cos(pos * div)
    return table


class HumAttention(nn.Module):
    """Multi-head scaled dot-product self-attention.

    Arguments of forward:
      frames    [batch, time, d_model]
      real      [batch, time] bool, True for recorded frames; padded frames are
                never attended to
    """

    def __init__(self, cfg: HiveConfig):
        super().__init__()
        self.n_heads = cfg.n_heads
        self.d_head = cfg.d_model // cfg.n_heads
        self.wq = nn.Linear(cfg.d_model, cfg.d_model)
        self.wk = nn.Linear(cfg.d_model, cfg.d_model)
        self.wv = nn.Linear(cfg.d_model, cfg.d_model)
        self.wo = nn.Linear(cfg.d_model, cfg.d_model)
        self.drop = nn.Dropout(cfg.p_drop)

    def _to_heads(self, x):
        batch, time, _ = x.shape
        return x.reshape(batch, self.n_heads, time, self.d_head)

    def forward(self, frames, real=None):
        q = self._to_heads(self.wq(frames))
        k = self._to_heads(self.wk(frames))
        v = self._to_heads(self.wv(frames))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.size(-2))
        if real is not None:
            scores = scores.masked_fill(~real[:, None, :, None], -1e9)
        probs = self.drop(torch.softmax(scores, dim=-1))
        context = torch.matmul(probs, v).transpose(1, 2).flatten(2)
        return self.wo(context)


class HiveLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = HumAttention(cfg)
        self.n1, self.n2 = nn.LayerNorm(cfg.d_model), nn.LayerNorm(cfg.d_model)
        self.ff = nn.Sequential(nn.Linear(cfg.d_model, 4 * cfg.d_model), nn.ReLU(), nn.Dropout(cfg.p_drop),
                                nn.Linear(4 * cfg.d_model, cfg.d_model))

    def forward(self, x, real):
        x = self.n1(x + self.attn(x, real))
        return self.n2(x + self.ff(x))


class SwarmPredictor(nn.Module):
    """P(swarm within 72 h)"""

    def __init__(self, cfg=HiveConfig(), longest=512):
        super().__init__()
        self.inp = nn.Linear(cfg.n_mels, cfg.d_model)
        self.register_buffer("pos", sinusoids(longest, cfg.d_model))
        self.layers = nn.ModuleList([HiveLayer(cfg) for _ in range(cfg.n_layers)])
        self.out = nn.Linear(cfg.d_model, 1)

    def forward(self, mels, n_frames):
        real = torch.arange(mels.size(1), device=mels.device) < n_frames.unsqueeze(1)
        x = self.inp(mels) + self.pos[: mels.size(1)]
        for layer in self.layers:
            x = layer(x, real)
        w = real.unsqueeze(-1).float()
        return torch.sigmoid(self.out((x * w).sum(1) / w.sum(1))).squeeze(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(SwarmPredictor().eval()(torch.randn(3, 30, 40), torch.tensor([30, 18, 24])))
