"""Small GPT for FineWeb shards, in the spirit of the nanoGPT speedruns.

What is not GPT-2 here:
  * no biases anywhere, RMSNorm without weights, squared ReLU;
  * q and k are RMS-normalised per head and the logits are multiplied by the
    constant ``attn_scale`` (0.12) in place of 1/sqrt(head_dim);
  * "value residual": every block mixes its values with those of block 0,
    v = (1 - lam) * v + lam * v0, with lam learned per block;
  * rotary embedding, half-split pairs (x[i], x[i + d/2]).
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GPTConfig:
    vocab_size: int = 96
    block_size: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    attn_scale: float = 0.12


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class Rotary(nn.Module):
    def __init__(self, dim, max_len):
        super().__init__()
        inv = 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
        ang = torch.outer(torch.arange(max_len).float(), inv)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def forward(self, x):  # (B, T, H, D)
        T = x.size(1)
        c, s = self.cos[None, :T, None], self.sin[None, :T, None]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * c - b * s, a * s + b * c], dim=-1)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.nh, self.scale = cfg.n_head, cfg.attn_scale
        d = cfg.n_embd
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d, bias=False)
        self.up = nn.Linear(d, 4 * d, bias=False)
        self.down = nn.Linear(4 * d, d, bias=False)
        self.lam = nn.Parameter(torch.tensor(0.5))
        self.rotary = Rotary(d // cfg.n_head, cfg.block_size)

    def attend(self, x, v0):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.nh, C // self.nh).unbind(2)
        v0 = v if v0 is None else v0
        v = (1 - self.lam) * v + self.lam * v0
        q, k = self.rotary(norm(q)), self.rotary(norm(k))
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
            is_causal=True, scale=self.scale)
        return self.proj(y.transpose(1, 2).reshape(B, T, C)), v0

    def forward(self, x, v0=None):
        y, v0 = self.attend(norm(x), v0)
        x = x + y
        x = x + self.down(F.relu(self.up(norm(x))).square())
        return x, v0


class GPT(nn.Module):
    def __init__(self, cfg: GPTConfig = GPTConfig()):
        super().__init__()
        self.wte = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        x, v0 = norm(self.wte(idx)), None
        for blk in self.blocks:
            x, v0 = blk(x, v0)
        logits = self.lm_head(norm(x)).float()
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
