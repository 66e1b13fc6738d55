"""tinygpt_play.py - character level GPT for generating Zork-like room descriptions.

Refactored out of my weekend notebook. The generator keeps a (k, v) tuple per
layer so that sampling is linear in the number of new characters.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GPTConfig:
    vocab: int = 96
    ctx: int = 128
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    drop: float = 0.0


class CausalSelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        assert cfg.n_embd % cfg.n_head == 0
        self.nh = cfg.n_head
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.out = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.attn_drop = nn.Dropout(cfg.drop)

    def forward(self, x, past=None):
        """x: (B, T, C); past: (k, v) of earlier characters, each (B, nh, P, hd)."""
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.nh, C // self.nh).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        # query t is at absolute position S - T + t
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        att = att.masked_fill(future, float("-inf"))
        att = self.attn_drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.out(y), (k, v)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = CausalSelfAttention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(),
                                 nn.Linear(4 * cfg.n_embd, cfg.n_embd))

    def forward(self, x, past=None):
        a, past = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.mlp(self.ln2(x)), past


class TinyGPT(nn.Module):
    def __init__(self, cfg=GPTConfig()):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.n_embd)
        self.pos = nn.Embedding(cfg.ctx, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.head = nn.Linear(cfg.n_embd, cfg.vocab, bias=False)

    def forward(self, idx, pasts=None):
        off = 0 if pasts is None else pasts[0][0].size(2)
        x = self.tok(idx) + self.pos(torch.arange(off, off + idx.size(1), device=idx.device))
        new = []
        for i, blk in enumerate(self.blocks):
            x, p = blk(x, None if pasts is None else pasts[i])
            new.append(p)
        return self.head(x), new
