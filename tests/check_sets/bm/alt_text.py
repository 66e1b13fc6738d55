"""Alt-text generator: the incremental decoder with beam search.

Beams of one image are neighbours in the batch: row = image * n_beams + beam.
After every step the surviving beams are gathered (``reorder``) so that each row
carries the history of the beam that it continues.
"""
from typing import List, Tuple

import torch
import torch.nn as nn
from torch import Tensor

BOS, EOS = 0, 1


class BeamAttention(nn.Module):
    """Self-attention, one token per call, history kept inside."""

    def __init__(self, dim: int, heads: int, max_len: int = 64):
        super().__init__()
        self.heads, self.head_dim, self.max_len = heads, dim // heads, max_len
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.clear()

    def clear(self) -> None:
        self.keys: List[Tensor] = []
        self.values: List[Tensor] = []

    def reorder(self, parents: Tensor) -> None:
        """parents [rows]: row i continues what was row parents[i]."""
        self.keys = [k.index_select(0, parents) for k in self.keys]

    def forward(self, x: Tensor) -> Tensor:
        """x [rows, dim], the newest token of each row -> [rows, dim]"""
        if len(self.keys) == self.max_len:
            raise RuntimeError("caption too long")
        rows = x.shape[0]
        q, k, v = self.qkv(x).view(rows, 3, self.heads, self.head_dim).unbind(1)
        self.keys.append(k)
        self.values.append(v)
        k = torch.stack(self.keys, dim=2)                 # rows, heads, t, head_dim
        v = torch.stack(self.values, dim=2)
        s = torch.einsum("rhd,rhtd->rht", q, k) * self.head_dim ** -0.5
        p = torch.softmax(s, dim=-1)
        return self.out(torch.einsum("rht,rhtd->rhd", p, v).flatten(1))


class CaptionDecoder(nn.Module):
    def __init__(self, vocab: int, dim: int = 48, heads: int = 4, depth: int = 2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(64, dim)
        self.img = nn.Linear(dim, dim)
        self.att = nn.ModuleList(BeamAttention(dim, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def step(self, tok: Tensor, t: int, image: Tensor) -> Tensor:
        x = self.emb(tok) + self.pos.weight[t] + self.img(image)
        for a, m, n in zip(self.att, self.mlp, self.norm):
            x = x + a(n(x))
            x = x + m(x)
        return (x @ self.emb.weight.T).log_softmax(-1)

    @torch.no_grad()
    def caption(self, image: Tensor, beams: int = 3, steps: int = 12) -> Tuple[Tensor, Tensor]:
        """image [b, dim] -> (tokens [b, steps], score [b])"""
        b = image.shape[0]
        for a in self.att:
            a.clear()
        image = image.repeat_interleave(beams, 0)
        tok = image.new_full((b * beams,), BOS, dtype=torch.long)
        score = image.new_full((b, beams), -1e9)
        score[:, 0] = 0.0
        done = torch.zeros_like(tok, dtype=torch.bool)
        said = tok.new_empty(b * beams, 0)
        base = torch.arange(b, device=image.device)[:, None] * beams
        for t in range(steps):
            lp = self.step(tok, t, image)
            lp[done] = float("-inf")
            lp[done, EOS] = 0.0
            cand = (score.view(-1, 1) + lp).view(b, -1)
            score, pick = cand.topk(beams, dim=1)
            rows = (base + pick // lp.shape[1]).flatten()
            tok = (pick % lp.shape[1]).flatten()
            said = torch.cat([said[rows], tok[:, None]], 1)
            done = done[rows] | (tok == EOS)
            for a in self.att:
                a.reorder(rows)
            if done.all():
                break
        return said.view(b, beams, -1)[:, 0], score[:, 0]
