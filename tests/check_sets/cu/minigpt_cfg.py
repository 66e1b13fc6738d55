from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GPTConfig:
    vocab: int = 61
    block: int = 24
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.1
    bias: bool = False


class SelfAttn(nn.Module):
    """Causal self-attention, position t sees 0..t. x: (B, T, C) -> (B, T, C)."""

    def __init__(self, c):
        super().__init__()
        self.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd, bias=c.bias)
        self.c_proj = nn.Linear(c.n_embd, c.n_embd, bias=c.bias)
        self.nh, self.p = c.n_head, c.dropout
        self.drop = nn.Dropout(c.dropout)

    def forward(self, x):
        # packed as (q | k | v), each of width C
        q, k, v = (t.unflatten(-1, (self.nh, -1)).transpose(1, 2) for t in self.c_attn(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.training * self.p)
        return self.drop(self.c_proj(y.transpose(1, 2).flatten(-2)))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.attn = SelfAttn(c)
        self.mlp = nn.Sequential(nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(),
                                 nn.Linear(4 * c.n_embd, c.n_embd), nn.Dropout(c.dropout))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class MiniGPT(nn.Module):
    """idx (B, T) int64 -> logits (B, T, vocab), loss or None."""

    def __init__(self, cfg=None):
        super().__init__()
        c = self.cfg = cfg or GPTConfig()
        self.wte = nn.Embedding(c.vocab, c.n_embd)
        self.wpe = nn.Embedding(c.block, c.n_embd)
        self.h = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.ln_f = nn.LayerNorm(c.n_embd)
        self.head = nn.Linear(c.n_embd, c.vocab, bias=False)
        self.head.weight = self.wte.weight  # tied

    def forward(self, idx, targets=None):
        T = idx.size(1)
        assert T <= self.cfg.block
        x = self.wte(idx) + self.wpe.weight[:T]
        for blk in self.h:
            x = blk(x)
        logits = self.head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, loss
