"""Move-sequence model for blitz games with an incremental decoder.

A game is a string of UCI moves, one token per move. Training runs the whole game at once,
the bot appends one or a few moves at a time and keeps keys/values in a fixed-size cache.
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class GameConfig:
    n_moves: int = 1968
    width: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    max_plies: int = 400
    rope_base: float = 10000.0


class PlyCache:
    """keys and values of one layer, preallocated"""

    def __init__(self, cfg, batch, device=None, dtype=torch.float32):
        hd = cfg.width // cfg.heads
        self.k = torch.zeros(batch, cfg.kv_heads, cfg.max_plies, hd, device=device, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.filled = 0

    def append(self, k, v):
        n = k.shape[2]
        end = self.filled + n
        if end > self.k.shape[2]:
            raise ValueError("game too long for the cache")
        self.k[:, :, self.filled:end] = k
        self.v[:, :, self.filled:end] = v
        self.filled = end
        return self.k[:, :, :end], self.v[:, :, :end]


def rotation_table(cfg, device=None):
    hd = cfg.width // cfg.heads
    inv = cfg.rope_base ** (-torch.arange(0, hd, 2, device=device).float() / hd)
    ang = torch.outer(torch.arange(cfg.max_plies, device=device).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)               # [plies, hd/2]


def rotate(x, table):
    """neighbouring channels (2i, 2i+1) form one complex number"""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * table).flatten(-2).type_as(x)


class CachedSelfAttention(nn.Module):
    def __init__(self, cfg: GameConfig):
        super().__init__()
        self.h, self.hk = cfg.heads, cfg.kv_heads
        self.hd = cfg.width // cfg.heads
        self.wq = nn.Linear(cfg.width, self.h * self.hd, bias=False)
        self.wkv = nn.Linear(cfg.width, 2 * self.hk * self.hd, bias=False)
        self.wo = nn.Linear(self.h * self.hd, cfg.width, bias=False)
        self.register_buffer("table", rotation_table(cfg), persistent=False)

    def forward(self, x, cache: Optional[PlyCache] = None):
        b, n, _ = x.shape
        start = 0 if cache is None else cache.filled
        q = self.wq(x).view(b, n, self.h, self.hd).transpose(1, 2)
        k, v = self.wkv(x).view(b, n, 2, self.hk, self.hd).permute(2, 0, 3, 1, 4)

        table = self.table[start:start + n]
        q, k = rotate(q, table), rotate(k, table)
        if cache is not None:
            k, v = cache.append(k, v)
        total = k.shape[2]

        group = self.h // self.hk
        k = k[:, :, None].expand(-1, -1, group, -1, -1).reshape(b, self.h, total, self.hd)
        v = v[:, :, None].expand(-1, -1, group, -1, -1).reshape(b, self.h, total, self.hd)

        row = torch.arange(start, start + n, device=x.device)[:, None]
        col = torch.arange(total, device=x.device)[None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=col <= row)
        return self.wo(y.transpose(1, 2).reshape(b, n, -1))


class GameBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(cfg.width), nn.RMSNorm(cfg.width)
        self.attn = CachedSelfAttention(cfg)
        self.up = nn.Linear(cfg.width, 4 * cfg.width, bias=False)
        self.down = nn.Linear(4 * cfg.width, cfg.width, bias=False)

    def forward(self, x, cache=None):
        x = x + self.attn(self.n1(x), cache)
        return x + self.down(F.silu(self.up(self.n2(x))))


class MoveModel(nn.Module):
    def __init__(self, cfg: GameConfig):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.n_moves, cfg.width)
        self.blocks = nn.ModuleList([GameBlock(cfg) for _ in range(cfg.layers)])
        self.norm = nn.RMSNorm(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.n_moves, bias=False)

    def forward(self, moves, caches=None):
        x = self.emb(moves)
        for i, blk in enumerate(self.blocks):
            x = blk(x, None if caches is None else caches[i])
        return self.head(self.norm(x))

    @torch.no_grad()
    def play(self, opening, n):
        caches = [PlyCache(self.cfg, opening.size(0), opening.device) for _ in self.blocks]
        game, new = opening, opening
        for _ in range(n):
            new = self(new, caches)[:, -1].argmax(-1, keepdim=True)
            game = torch.cat([game, new], 1)
        return game
