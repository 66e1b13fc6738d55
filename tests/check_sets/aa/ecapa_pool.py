"""Speaker embedding network with multi-head attentive statistics pooling.

Trained on VoxCeleb1, 80 mel bins.  The pooling follows Okabe et al. (2018),
with the channels cut into groups and one attention head per group
(India et al., 2019).
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class SpeakerConfig:
    n_mels: int = 16
    channels: int = 32
    heads: int = 4
    bottleneck: int = 12
    embed_dim: int = 24


class TDNNBlock(nn.Module):
    def __init__(self, c_in, c_out, kernel, dilation=1):
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.conv = nn.Conv1d(c_in, c_out, kernel, dilation=dilation, padding=pad)
        self.norm = nn.GroupNorm(1, c_out)

    def forward(self, x):
        return self.norm(F.relu(self.conv(x)))


class MultiHeadStatsPooling(nn.Module):
    """Weighted mean and standard deviation over time, one set of weights per head.

    For every head the weights over the valid frames sum to one.
    """

    def __init__(self, channels, heads, bottleneck):
        super().__init__()
        assert channels % heads == 0
        self.heads = heads
        self.score = nn.Sequential(
            nn.Conv1d(channels, bottleneck, 1),
            nn.Tanh(),
            nn.Conv1d(bottleneck, heads, 1),
        )

    def forward(self, h, lengths=None):
        b, c, t = h.shape
        e = self.score(h)                                    # [B, heads, T]
        if lengths is not None:
            frames = torch.arange(t, device=h.device)
            pad = frames[None, :] >= lengths[:, None]
            e = e.masked_fill(pad[:, None, :], torch.finfo(e.dtype).min)
        w = torch.softmax(e.flatten(1), dim=-1).view_as(e)
        g = h.view(b, self.heads, c // self.heads, t)
        mu = torch.einsum("bht,bhct->bhc", w, g)
        ex2 = torch.einsum("bht,bhct->bhc", w, g * g)
        sigma = (ex2 - mu * mu).clamp_min(1e-6).sqrt()
        return torch.cat([mu.flatten(1), sigma.flatten(1)], dim=-1)


class SpeakerEncoder(nn.Module):
    def __init__(self, cfg: SpeakerConfig = SpeakerConfig()):
        super().__init__()
        self.frontend = nn.Sequential(
            TDNNBlock(cfg.n_mels, cfg.channels, 5),
            TDNNBlock(cfg.channels, cfg.channels, 3, dilation=2),
        )
        self.pool = MultiHeadStatsPooling(cfg.channels, cfg.heads, cfg.bottleneck)
        self.head = nn.Linear(2 * cfg.channels, cfg.embed_dim)

    def forward(self, mels, lengths=None):
        """mels: [B, n_mels, T]; lengths: [B] number of valid frames."""
        h = self.frontend(mels)
        z = self.head(self.pool(h, lengths))
        return F.normalize(z, dim=-1)
