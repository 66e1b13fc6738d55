"""
A very small GPT for cryptic crossword clues (clue + enumeration -> answer).

One file, after the well-known minimal implementation.  Two additions:
  - a key/value memory, so that the solver can be fed in chunks of any length
    ("past" is what the previous call returned);
  - weight-tied head.

The attention is causal: a token sees itself, all earlier tokens of the chunk and
everything in `past`.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class SolverConfig:
    block_size: int = 64
    vocab_size: int = 40          # a-z, space, digits, punctuation
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 48
    dropout: float = 0.0
    bias: bool = True


class ClueSelfAttention(nn.Module):

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        # key, query, value projections for all heads, but in a batch
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        # output projection
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        # regularization
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head = config.n_head
        self.n_embd = config.n_embd
        self.dropout = config.dropout

    def forward(self, x, past=None):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        present = (k, v)

        y = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=T > 1,      # a single token may look at everything
        )
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y)), present


class Block(nn.Module):

    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = ClueSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd), nn.Dropout(config.dropout),
        )

    def forward(self, x, past=None):
        a, present = self.attn(self.ln_1(x), past)
        x = x + a
        return x + self.mlp(self.ln_2(x)), present


class ClueGPT(nn.Module):

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        for n, p in self.named_parameters():
            if n.endswith("c_proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * config.n_layer))

    def forward(self, idx, pasts=None):
        start = 0 if pasts is None else pasts[0][0].size(2)
        T = idx.size(1)
        assert start + T <= self.config.block_size
        x = self.wte(idx) + self.wpe(torch.arange(start, start + T, device=idx.device))
        presents = []
        for i, block in enumerate(self.h):
            x, p = block(x, None if pasts is None else pasts[i])
            presents.append(p)
        return self.ln_f(x) @ self.wte.weight.T, presents

    @torch.no_grad()
    def solve(self, clue, letters):
        """clue (1, T): greedy answer of the enumerated length."""
        logits, pasts = self(clue)
        out = []
        for _ in range(letters):
            nxt = logits[:, -1:].argmax(-1)
            out.append(nxt)
            logits, pasts = self(nxt, pasts)
        return torch.cat(out, 1)
