"""gMLP (Liu et al., 2021) as a drop-in encoder for masked language modelling.

Tokens are mixed by a learned L x L matrix inside the gate; there are no queries and keys.
"""
import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F


class SpatialGatingUnit(nn.Module):
    """u * (W norm(v) + b), W near zero and b = 1 at the start, so that the block begins as a feed-forward."""

    def __init__(self, d_ffn, seq_len, causal=False, eps=1e-3):
        super().__init__()
        self.norm = nn.LayerNorm(d_ffn // 2)
        self.weight = nn.Parameter(torch.empty(seq_len, seq_len).uniform_(-eps / seq_len, eps / seq_len))
        self.bias = nn.Parameter(torch.ones(seq_len))
        self.causal = causal

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        n = x.shape[1]
        w, b = self.weight[:n, :n], self.bias[:n]
        if self.causal:
            w = w.tril()
        v = torch.einsum("mn,bnd->bmd", w, self.norm(v)) + b[None, :, None]
        return u * v


class GMLPBlock(nn.Module):
    def __init__(self, d_model, d_ffn, seq_len, causal=False, survival=1.0):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.proj_in = nn.Linear(d_model, d_ffn)
        self.sgu = SpatialGatingUnit(d_ffn, seq_len, causal)
        self.proj_out = nn.Linear(d_ffn // 2, d_model)
        self.survival = survival

    def forward(self, x):
        if self.training and self.survival < 1.0 and torch.rand(()) > self.survival:
            return x
        y = F.gelu(self.proj_in(self.norm(x)))
        return x + self.proj_out(self.sgu(y))


def survival_schedule(depth, last):
    for i in range(depth):
        yield 1.0 - (1.0 - last) * i / max(depth - 1, 1)


class GMLPForMaskedLM(nn.Module):
    def __init__(self, vocab, d_model=64, d_ffn=256, seq_len=128, depth=6, prob_survival=0.9):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        make = partial(GMLPBlock, d_model, d_ffn, seq_len)
        self.blocks = nn.ModuleList(make(survival=s) for s in survival_schedule(depth, prob_survival))
        self.norm = nn.LayerNorm(d_model)
        self.out_bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids, labels=None):
        x = self.embed(ids)
        for blk in self.blocks:
            x = blk(x)
        logits = self.norm(x) @ self.embed.weight.T / math.sqrt(x.shape[-1]) + self.out_bias
        if labels is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
