"""Hybrid token mixer: sliding-window attention and a diagonal SSM in parallel.

The two branches read the same normalised input and their outputs are averaged
(Hymba-like). The attention branch

  * sees the ``window`` latest positions, the current one included;
  * has one learned *sink* logit per head which takes part in the softmax but
    has no value (weights of a row therefore sum to less than one);
  * multiplies its heads by a sigmoid gate of the input before the projection.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class MixerConfig:
    dim: int = 32
    heads: int = 4
    window: int = 3
    norm_eps: float = 1e-6


class DiagonalSSM(nn.Module):
    """h_t = a * h_{t-1} + (1 - a) * u_t, with one decay per channel."""

    def __init__(self, dim):
        super().__init__()
        self.log_decay = nn.Parameter(torch.linspace(-2.0, 3.0, dim))
        self.inp = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        a = torch.sigmoid(self.log_decay)
        u = self.inp(x)
        h = torch.zeros_like(u[:, 0])
        out = []
        for t in range(u.shape[1]):
            h = a * h + (1 - a) * u[:, t]
            out.append(h)
        return torch.stack(out, dim=1)


class SinkAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.to_qkvg = nn.Linear(cfg.dim, 4 * cfg.dim, bias=False)
        self.sink = nn.Parameter(torch.randn(cfg.heads))
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        H = self.cfg.heads
        q, k, v, g = self.to_qkvg(x).chunk(4, dim=-1)
        q, k, v = (t.unflatten(-1, (H, D // H)).transpose(1, 2) for t in (q, k, v))
        logits = (q @ k.transpose(-2, -1)) * (D // H) ** -0.5

        i = torch.arange(T, device=x.device)
        dist = i[:, None] - i[None, :]
        hidden = (dist < 0) | (dist >= self.cfg.window)
        logits = logits.masked_fill(hidden, float("-inf"))

        sink = self.sink.view(1, H, 1, 1).expand(B, H, T, 1)
        probs = torch.cat((logits, sink), dim=-1).softmax(dim=-1)[..., :-1]
        y = (probs @ v).transpose(1, 2).flatten(2)
        return self.out(y * torch.sigmoid(g))


class HybridMixer(nn.Module):
    def __init__(self, cfg: MixerConfig = MixerConfig()):
        super().__init__()
        self.norm = nn.RMSNorm(cfg.dim, eps=cfg.norm_eps)
        self.attn = SinkAttention(cfg)
        self.ssm = DiagonalSSM(cfg.dim)
        self.post_attn = nn.RMSNorm(cfg.dim, eps=cfg.norm_eps)
        self.post_ssm = nn.RMSNorm(cfg.dim, eps=cfg.norm_eps)

    def forward(self, x):
        h = self.norm(x)
        mixed = 0.5 * (self.post_attn(self.attn(h)) + self.post_ssm(self.ssm(h)))
        return x + mixed
