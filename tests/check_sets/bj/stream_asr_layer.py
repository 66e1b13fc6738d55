"""Streaming ASR encoder layer, chunk by chunk with left context.

Each incoming chunk attends to the cached left context (at most ``left``
frames) and causally to itself: a frame sees all earlier frames that are still
in the cache and its own frame, none that come later.
"""
from dataclasses import dataclass, field
from typing import Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class StreamCfg:
    dim: int = 32
    heads: int = 2
    left: int = 16
    conv_kernel: int = 5


@dataclass
class LayerCache:
    k: Optional[torch.Tensor] = None
    v: Optional[torch.Tensor] = None
    conv: Optional[torch.Tensor] = None
    frames: int = field(default=0)


class StreamingMHSA(nn.Module):
    def __init__(self, cfg: StreamCfg):
        super().__init__()
        self.cfg = cfg
        self.lin_q = nn.Linear(cfg.dim, cfg.dim)
        self.lin_k = nn.Linear(cfg.dim, cfg.dim)
        self.lin_v = nn.Linear(cfg.dim, cfg.dim)
        self.lin_o = nn.Linear(cfg.dim, cfg.dim)
        self.scale = cfg.heads**-0.5

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        return x.reshape(b, t, self.cfg.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor, cache: Optional[LayerCache] = None) -> torch.Tensor:
        q, k, v = self._heads(self.lin_q(x)), self._heads(self.lin_k(x)), self._heads(self.lin_v(x))
        if cache is not None:
            if cache.k is not None:
                k = torch.cat([cache.k, k], dim=2)
                v = torch.cat([cache.v, v], dim=2)
            cache.k = k[:, :, -self.cfg.left :].detach()
            cache.v = v[:, :, -self.cfg.left :].detach()
            cache.frames += x.shape[1]
        t, s = q.shape[2], k.shape[2]
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        visible = torch.ones(t, s, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~visible, float("-inf"))
        ctx = torch.matmul(scores.softmax(dim=-1), v)
        return self.lin_o(ctx.permute(0, 2, 1, 3).flatten(2))


class CausalConv(nn.Module):
    def __init__(self, cfg: StreamCfg):
        super().__init__()
        self.pad = cfg.conv_kernel - 1
        self.dw = nn.Conv1d(cfg.dim, cfg.dim, cfg.conv_kernel, groups=cfg.dim)
        self.pw = nn.Conv1d(cfg.dim, cfg.dim, 1)

    def forward(self, x: torch.Tensor, cache: Optional[LayerCache] = None) -> torch.Tensor:
        y = x.transpose(1, 2)
        past = y.new_zeros(y.shape[0], y.shape[1], self.pad)
        if cache is not None and cache.conv is not None:
            past = cache.conv
        y = torch.cat([past, y], dim=2)
        if cache is not None:
            cache.conv = y[:, :, -self.pad :].detach()
        return self.pw(torch.nn.functional.silu(self.dw(y))).transpose(1, 2)


class StreamingLayer(nn.Module):
    def __init__(self, cfg: StreamCfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.att, self.conv = StreamingMHSA(cfg), CausalConv(cfg)

    def forward(self, x, cache=None) -> Tuple[torch.Tensor, Optional[LayerCache]]:
        x = x + self.att(self.n1(x), cache)
        x = x + self.conv(self.n2(x), cache)
        return x, cache


@torch.inference_mode()
def stream(layer: StreamingLayer, audio: torch.Tensor, chunk: int = 4) -> torch.Tensor:
    cache, outs = LayerCache(), []
    for piece in audio.split(chunk, dim=1):
        y, cache = layer(piece, cache)
        outs.append(y)
    return torch.cat(outs, dim=1)
