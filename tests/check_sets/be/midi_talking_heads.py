"""Symbolic-music decoder: talking-heads attention with ALiBi distances."""
import math

import torch
import torch.nn as nn


def get_slopes(n):
    """Slopes of the ALiBi paper, any number of heads."""

    def pow2(m):
        start = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [start * start ** i for i in range(m)]

    if math.log2(n).is_integer():
        return pow2(n)
    closest = 2 ** math.floor(math.log2(n))
    return pow2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


class TalkingHeads(nn.Module):
    """Causal.  Heads are mixed twice: logits before, weights after the softmax.

    The distance penalty is added after the first mix, so that a head keeps
    its own slope.
    """

    def __init__(self, dim: int, heads: int = 6, p_drop: float = 0.0):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.dh = dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.mix_pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.mix_post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.drop = nn.Dropout(p_drop)
        self.out = nn.Linear(dim, dim)
        self.register_buffer("slopes", torch.tensor(get_slopes(heads)).view(1, heads, 1, 1))

    def split(self, t):
        return t.unflatten(-1, (self.heads, self.dh)).transpose(1, 2)

    def forward(self, x):
        n = x.shape[1]
        q = self.split(self.to_q(x))
        k, v = map(self.split, self.to_kv(x).chunk(2, dim=-1))

        dots = q @ k.transpose(-2, -1) / math.sqrt(self.dh)
        dots = torch.einsum("bhij,hg->bgij", dots, self.mix_pre)

        pos = torch.arange(n, device=x.device)
        rel = pos[None, :] - pos[:, None]  # j - i, <= 0 in the past
        dots = dots + self.slopes * rel
        dots = dots.masked_fill(rel > 0, -torch.finfo(dots.dtype).max)

        att = dots.softmax(dim=-1)
        att = self.drop(att)
        att = torch.einsum("bhij,hg->bgij", att, self.mix_post)
        y = (att @ v).transpose(1, 2).flatten(2)
        return self.out(y)


class MidiLM(nn.Module):
    def __init__(self, vocab=388, dim=48, depth=2, heads=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(dim), TalkingHeads(dim, heads), nn.LayerNorm(dim),
                           nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))])
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        x = self.emb(tokens)
        for n1, a, n2, f in self.layers:
            x = x + a(n1(x))
            x = x + f(n2(x))
        return self.head(x)
