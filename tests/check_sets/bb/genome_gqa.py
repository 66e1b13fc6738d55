"""Genome language model, minimal inference code that loads the released weights.

The checkpoint follows the LLaMA convention: with n_heads query heads and n_kv
key/value heads, the query heads [0 .. g-1] share kv head 0, the next g share
kv head 1, and so on (g = n_heads // n_kv).
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class GenomeArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv: int = 2
    vocab: int = 12
    n_layers: int = 2
    eps: float = 1e-6


def complement_table(vocab: str = "ACGT") -> torch.Tensor:
    pairs = {"A": "T", "T": "A", "C": "G", "G": "C"}
    return torch.tensor([vocab.index(pairs[c]) for c in vocab])


class GroupedAttention(nn.Module):
    """Bidirectional (masked-LM). x: (B, L, dim); n_mask: (B, L) bool, True where base is 'N'.

    'N' runs are never attended to. At least one base of each window is known.
    """

    def __init__(self, a: GenomeArgs):
        super().__init__()
        self.a = a
        self.hd = a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, a.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, a.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, a.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(a.n_heads * self.hd, a.dim, bias=False)

    def _expand(self, t: torch.Tensor) -> torch.Tensor:
        """(B, n_kv, L, hd) -> (B, n_heads, L, hd)"""
        g = self.a.n_heads // self.a.n_kv
        b, n, l, d = t.shape
        return t[:, None].expand(b, g, n, l, d).reshape(b, g * n, l, d)

    def forward(self, x, n_mask=None):
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, -1, self.hd).transpose(1, 2)
        k = self._expand(self.wk(x).view(B, L, -1, self.hd).transpose(1, 2))
        v = self._expand(self.wv(x).view(B, L, -1, self.hd).transpose(1, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.hd)
        if n_mask is not None:
            scores = scores.masked_fill(n_mask[:, None, None, :], float("-inf"))
        probs = F.softmax(scores.float(), dim=-1).type_as(q)
        return self.wo((probs @ v).transpose(1, 2).reshape(B, L, -1))


class GenomeLM(nn.Module):
    def __init__(self, a: GenomeArgs = GenomeArgs()):
        super().__init__()
        self.tok = nn.Embedding(a.vocab, a.dim)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.RMSNorm(a.dim, a.eps), "attn": GroupedAttention(a),
                           "ffn": nn.Sequential(nn.RMSNorm(a.dim, a.eps), nn.Linear(a.dim, 2 * a.dim),
                                                nn.SiLU(), nn.Linear(2 * a.dim, a.dim))})
            for _ in range(a.n_layers))

    def forward(self, tokens, n_mask=None):
        x = self.tok(tokens)
        for l in self.layers:
            x = x + l["attn"](l["norm"](x), n_mask)
            x = x + l["ffn"](x)
        return x @ self.tok.weight.T
