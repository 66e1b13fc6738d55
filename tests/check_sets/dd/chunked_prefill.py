"""Attention of a decoder that reads a long prompt in pieces and then writes token by token."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Settings:
    dim: int = 40
    heads: int = 5


class PieceReader(nn.Module):
    def __init__(self, s: Settings = Settings()):
        super().__init__()
        self.h, self.dh = s.heads, s.dim // s.heads
        self.in_proj = nn.Linear(s.dim, 3 * s.dim, bias=False)
        self.out_proj = nn.Linear(s.dim, s.dim, bias=False)

    def forward(self, piece, store=None):
        """piece (B, n, dim) directly follows the tokens in store.

        store: {"k": (B, heads, m, dim/heads), "v": same} or None.
        A token sees everything stored, the earlier tokens of its piece, and itself.
        Returns (B, n, dim) and the new store.
        """
        B, n, D = piece.shape
        q, k, v = self.in_proj(piece).view(B, n, 3, self.h, self.dh).permute(2, 0, 3, 1, 4)
        if store:
            k = torch.cat([store["k"], k], dim=2)
            v = torch.cat([store["v"], v], dim=2)
        total = k.size(2)
        seen = torch.ones(n, total, dtype=torch.bool, device=piece.device).tril()
        att = (q @ k.mT) / self.dh ** 0.5
        att = att.masked_fill(~seen, float("-inf")).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(B, n, D)
        return self.out_proj(y), {"k": k, "v": v}


def write(reader, prompt, piece=4, extra=3):
    store, y = None, None
    for part in prompt.split(piece, dim=1):
        y, store = reader(part, store)
    out = []
    for _ in range(extra):
        y, store = reader(y[:, -1:], store)
        out.append(y)
    return torch.cat(out, 1)
