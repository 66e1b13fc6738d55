"""One llama layer with its own conversation state, for the terminal chat toy.

    layer.open(batch)      forget everything
    layer.push(x)          put T new tokens into the state, returns their outputs
    layer.read()           (keys, values) seen so far, keys already rotated

Pushing a text in pieces gives the same outputs as pushing it at once. Causal.
"""
import math
import torch
import torch.nn as nn


def build_tables(dim, max_len, base=10000.0):
    inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
    ang = torch.arange(max_len).float()[:, None] * inv[None, :]
    return ang.cos(), ang.sin()


def apply_rope(x, cos, sin):
    """Meta layout: neighbours (2i, 2i+1) form a pair. x [B,H,T,D]; cos, sin [T,D/2]"""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    z = z * torch.complex(cos, sin)
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


class LlamaSessionLayer(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=256):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        cos, sin = build_tables(self.hd, max_len)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.open(1)

    def open(self, batch):
        self.cursor = 0
        self.k = self.wk.weight.new_zeros(batch, self.heads, 0, self.hd)
        self.v = self.wv.weight.new_zeros(batch, self.heads, 0, self.hd)

    def _heads(self, y):
        return y.unflatten(-1, (self.heads, self.hd)).transpose(1, 2)

    def push(self, x):
        T = x.shape[1]
        cos = self.cos[self.cursor:self.cursor + T]
        sin = self.sin[self.cursor:self.cursor + T]
        q = apply_rope(self._heads(self.wq(x)), cos, sin)
        k = apply_rope(self._heads(self.wk(x)), cos, sin)
        self.k = torch.cat([self.k, k], dim=2)
        self.v = torch.cat([self.v, self._heads(self.wv(x))], dim=2)
        self.cursor += 1
        S = self.k.shape[2]
        scores = q @ self.k.transpose(2, 3) / math.sqrt(self.hd)
        mask = torch.full((T, S), float("-inf"), device=x.device).triu(S - T + 1)
        probs = torch.softmax((scores + mask).float(), dim=-1).type_as(x)
        return self.wo((probs @ self.v).transpose(1, 2).flatten(2))

    def read(self):
        return self.k, self.v

    def forward(self, x):
        self.open(x.shape[0])
        return self.push(x)
