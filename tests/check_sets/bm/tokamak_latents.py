"""Disruption alarm: a handful of latents read an irregular set of diagnostics.

Every shot delivers a different subset of channels (magnetics, interferometry,
ECE ...), so the channel axis is a *set with holes*.  ``missing`` marks holes.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor, nn


def unit_rms(x: Tensor, gain: Tensor) -> Tensor:
    dtype = x.dtype
    x = x.float()
    x = x / x.square().mean(dim=-1, keepdim=True).add(1e-6).sqrt()
    return (x * gain.float()).to(dtype)


class LatentReader(nn.Module):
    """Cross attention from ``n_latents`` learned queries to the channels.

    * queries and keys are RMS-normalised per head, with a gain each;
    * logits are soft-capped: ``cap * tanh(s / cap)``;
    * ``missing`` is [batch, channels], True where there is *no* signal.  If all
      channels of a shot are missing, the read-out of this shot is zero before the
      output projection (which has no bias).
    """

    def __init__(self, channel_dim: int, latent_dim: int, n_latents: int, heads: int = 4, cap: float = 20.0) -> None:
        super().__init__()
        if latent_dim % heads:
            raise ValueError("latent_dim must be divisible by heads")
        self.heads = heads
        self.head_dim = latent_dim // heads
        self.cap = cap
        self.latents = nn.Parameter(torch.randn(n_latents, latent_dim) * 0.02)
        self.norm_latents = nn.LayerNorm(latent_dim)
        self.norm_channels = nn.LayerNorm(channel_dim)
        self.wq = nn.Linear(latent_dim, latent_dim, bias=False)
        self.wkv = nn.Linear(channel_dim, 2 * latent_dim, bias=False)
        self.wo = nn.Linear(latent_dim, latent_dim, bias=False)
        self.q_gain = nn.Parameter(torch.ones(self.head_dim))
        self.k_gain = nn.Parameter(torch.ones(self.head_dim))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.head_dim)).movedim(-2, 1)

    def forward(self, channels: Tensor, missing: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        bsz = channels.shape[0]
        if missing is not None:
            # holes may carry NaN from the data acquisition
            channels = channels.masked_fill(missing.unsqueeze(-1), 0.0)
        q = self._heads(self.wq(self.norm_latents(self.latents))[None].expand(bsz, -1, -1))
        k, v = self.wkv(self.norm_channels(channels)).chunk(2, dim=-1)
        k, v = self._heads(k), self._heads(v)

        q, k = unit_rms(q, self.q_gain), unit_rms(k, self.k_gain)
        logits = (q @ k.transpose(-1, -2)).float() / self.head_dim**0.5
        logits = self.cap * torch.tanh(logits / self.cap)
        if missing is not None:
            hole = missing[:, None, None, :]
            logits = logits.masked_fill(hole, torch.finfo(logits.dtype).min)
            weights = torch.softmax(logits, dim=-1).masked_fill(hole, 0.0)
        else:
            weights = torch.softmax(logits, dim=-1)
        read = weights.to(v.dtype) @ v
        return self.wo(read.movedim(1, -2).flatten(-2)), weights


class DisruptionAlarm(nn.Module):
    def __init__(self, channel_dim: int = 24, latent_dim: int = 32, n_latents: int = 6) -> None:
        super().__init__()
        self.reader = LatentReader(channel_dim, latent_dim, n_latents)
        self.rnn = nn.GRU(n_latents * latent_dim, 64, batch_first=True)
        self.out = nn.Linear(64, 1)

    def forward(self, shots: Tensor, missing: Tensor) -> Tensor:
        """shots [batch, time, channels, channel_dim] -> alarm probability per time step."""
        b, t = shots.shape[:2]
        read, _ = self.reader(shots.flatten(0, 1), missing.flatten(0, 1))
        hidden, _ = self.rnn(read.flatten(1).view(b, t, -1))
        return torch.sigmoid(self.out(hidden)).squeeze(-1)
