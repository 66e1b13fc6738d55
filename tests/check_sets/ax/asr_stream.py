"""Streaming acoustic encoder: chunks with left context.

Each chunk of frames sees itself (both directions) and up to ``left`` cached frames before
it.  Instead of position embeddings a symmetric ALiBi penalty is used:
    score -= slope_h * |frame distance|
so that near frames are preferred on both sides.  The result does not depend on how many
frames have been cut off at the left.
"""
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn


def head_slopes(heads: int) -> Tensor:
    if heads & (heads - 1):
        raise ValueError("number of heads must be a power of two")
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)


class StreamingAttention(nn.Module):
    def __init__(self, dim: int, heads: int, left: int, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dk, self.left = heads, dim // heads, left
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("slopes", head_slopes(heads)[:, None, None], persistent=False)

    def penalty(self, t_q: int, t_k: int) -> Tensor:
        rows = torch.arange(t_q, device=self.slopes.device)[:, None]
        cols = torch.arange(t_k, device=self.slopes.device)[None, :]
        return self.slopes * (rows - cols).abs()

    def forward(self, x: Tensor, cache: Optional[Tuple[Tensor, Tensor]] = None):
        """x: [B, T, D] frames of the chunk; cache: keys and values [B, H, L, dk] of the frames before it"""
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.dk).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        new_cache = (k[:, :, -self.left:], v[:, :, -self.left:]) if self.left > 0 else None

        scores = q @ k.transpose(-2, -1) / self.dk ** 0.5
        scores = scores - self.penalty(t, k.size(2))
        y = self.drop(scores.softmax(dim=-1)) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, -1)), new_cache


class StreamingLayer(nn.Module):
    def __init__(self, dim, heads, left, dropout=0.1):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = StreamingAttention(dim, heads, left, dropout)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim))

    def forward(self, x, cache=None):
        y, cache = self.att(self.norm1(x), cache)
        x = x + y
        return x + self.ff(self.norm2(x)), cache


class StreamingEncoder(nn.Module):
    """log-mel features [B, T, mels] -> CTC log-probabilities, one call for each chunk"""

    def __init__(self, mels=80, dim=128, heads=4, layers=4, chunk=16, left=32, units=64):
        super().__init__()
        self.chunk = chunk
        self.inp = nn.Linear(2 * mels, dim)      # two frames are stacked
        self.layers = nn.ModuleList(StreamingLayer(dim, heads, left) for _ in range(layers))
        self.ctc = nn.Linear(dim, units)

    def step(self, feats: Tensor, caches: Optional[List] = None):
        caches = caches or [None] * len(self.layers)
        x = self.inp(feats[:, : feats.size(1) // 2 * 2].unflatten(1, (-1, 2)).flatten(2))
        new = []
        for layer, c in zip(self.layers, caches):
            x, c = layer(x, c)
            new.append(c)
        return self.ctc(x).log_softmax(-1), new

    @torch.no_grad()
    def transcribe(self, feats: Tensor, blank: int = 0) -> List[int]:
        assert feats.size(0) == 1
        caches, last, out = None, blank, []
        for piece in feats.split(2 * self.chunk, dim=1):
            if piece.size(1) < 2:
                break
            logp, caches = self.step(piece, caches)
            for u in logp[0].argmax(-1).tolist():
                if u != last and u != blank:
                    out.append(u)
                last = u
        return out
