"""Lightweight temporal attention for crop-type maps from Sentinel-2 series.

Re-implementation for our paper on winter cereals (12 classes, Brandenburg).
One parcel = one series of T acquisitions, each already pooled over its pixels.
Follows the "master query" idea: the query of every head is a parameter and
does not depend on the parcel; the values are the input channels themselves,
split among the heads.
"""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class LTAEConfig:
    in_channels: int = 64
    n_head: int = 8
    d_k: int = 4
    n_classes: int = 12
    period: float = 1000.0
    dropout: float = 0.2


def doy_encoding(doy: torch.Tensor, dim: int, period: float) -> torch.Tensor:
    """Sine/cosine code of the day of year. doy: (N, T) -> (N, T, dim)."""
    even = torch.arange(0, dim, 2, device=doy.device, dtype=torch.float32)
    freq = torch.exp(-math.log(period) * even / dim)
    angle = doy.float().unsqueeze(-1) * freq
    out = torch.zeros(*doy.shape, dim, device=doy.device)
    out[..., 0::2] = torch.sin(angle)
    out[..., 1::2] = torch.cos(angle)
    return out


class MasterQueryAttention(nn.Module):
    """Attention of H learned queries over the dates of a series.

    Args of forward:
        x:      (N, T, C) with C divisible by the number of heads
        cloudy: (N, T) bool, True = the date is padded or under clouds and
                must not be used. A parcel without a clear date gives zeros.
    Returns:
        (N, C) pooled features and (N, H, T) weights.
    """

    def __init__(self, channels: int, n_head: int, d_k: int):
        super().__init__()
        assert channels % n_head == 0
        self.n_head, self.d_k = n_head, d_k
        self.master = nn.Parameter(torch.empty(n_head, d_k))
        nn.init.normal_(self.master, std=math.sqrt(2.0 / d_k))
        self.to_key = nn.Linear(channels, n_head * d_k)

    def forward(self, x, cloudy=None):
        n, t, c = x.shape
        key = self.to_key(x).view(n, t, self.n_head, self.d_k)
        logit = torch.einsum("hd,nthd->nht", self.master, key)
        logit = logit / math.sqrt(self.d_k)
        if cloudy is not None:
            hide = cloudy[:, None, :]
            logit = logit.masked_fill(hide, torch.finfo(logit.dtype).min)
        weight = logit.softmax(dim=-1)
        if cloudy is not None:
            weight = weight.masked_fill(hide, 0.0)
        value = x.view(n, t, self.n_head, c // self.n_head)
        pooled = torch.einsum("nht,nthc->nhc", weight, value)
        return pooled.reshape(n, c), weight


class ParcelClassifier(nn.Module):
    def __init__(self, cfg: LTAEConfig):
        super().__init__()
        self.cfg = cfg
        self.norm_in = nn.GroupNorm(cfg.n_head, cfg.in_channels)
        self.attn = MasterQueryAttention(cfg.in_channels, cfg.n_head, cfg.d_k)
        self.head = nn.Sequential(
            nn.Linear(cfg.in_channels, 128), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Dropout(cfg.dropout), nn.Linear(128, cfg.n_classes))

    def forward(self, series, doy, cloudy=None):
        x = self.norm_in(series.transpose(1, 2)).transpose(1, 2)
        x = x + doy_encoding(doy, x.shape[-1], self.cfg.period)
        pooled, _ = self.attn(x.contiguous(), cloudy)
        return self.head(pooled)


if __name__ == "__main__":
    net = ParcelClassifier(LTAEConfig()).eval()
    s = torch.randn(4, 31, 64)
    d = torch.arange(31).expand(4, 31) * 5
    print(net(s, d, torch.rand(4, 31) > 0.7).shape)
