"""Row-wise gated self-attention over an MSA, biased by the pair track.

(AlphaFold 2 supplement, algorithm 7, plus a per-head linear relative-distance
term that helped on short peptides.)
"""
import typing as T

import torch
import torch.nn as nn


class RelativeRamp(nn.Module):
    """Learned per-head value for clip(j - i, -r, r)."""

    def __init__(self, heads: int, r: int = 32):
        super().__init__()
        self.r = r
        self.weight = nn.Parameter(torch.randn(heads, 2 * r + 1) * 0.3)

    def forward(self, n: int) -> torch.Tensor:
        i = torch.arange(n, device=self.weight.device)
        return self.weight[:, (i[None] - i[:, None]).clamp(-self.r, self.r) + self.r]


class MSARowAttention(nn.Module):
    """
    Args of ``forward``:
        msa:       [B, S, L, c]
        pair_bias: [B, H, L, L], from :class:`PairToBias`; computed once per
                   recycling iteration and handed to every block
        res_mask:  [B, L] bool, True = residue is resolved and may be attended to.
                   At least one per sample.
    """

    def __init__(self, c: int, heads: int, c_hidden: int):
        super().__init__()
        self.heads, self.c_hidden = heads, c_hidden
        self.norm = nn.LayerNorm(c)
        self.q = nn.Linear(c, heads * c_hidden, bias=False)
        self.k = nn.Linear(c, heads * c_hidden, bias=False)
        self.v = nn.Linear(c, heads * c_hidden, bias=False)
        self.gate = nn.Linear(c, heads * c_hidden)
        self.out = nn.Linear(heads * c_hidden, c)
        self.ramp = RelativeRamp(heads)

    def _split(self, t: torch.Tensor) -> torch.Tensor:
        return t.unflatten(-1, (self.heads, self.c_hidden)).transpose(-2, -3)  # B S H L e

    def forward(self, msa, pair_bias, res_mask: T.Optional[torch.Tensor] = None):
        m = self.norm(msa)
        q, k, v = self._split(self.q(m)), self._split(self.k(m)), self._split(self.v(m))
        q = q * self.c_hidden ** -0.5

        pair_bias += self.ramp(msa.shape[2])
        logits = q @ k.transpose(-1, -2) + pair_bias[:, None]
        if res_mask is not None:
            logits = logits.masked_fill(~res_mask[:, None, None, None, :], float("-inf"))
        a = logits.softmax(dim=-1)

        o = (a @ v).transpose(-2, -3).flatten(-2)
        return self.out(torch.sigmoid(self.gate(m)) * o)


class PairToBias(nn.Module):
    def __init__(self, c_z: int, heads: int):
        super().__init__()
        self.norm = nn.LayerNorm(c_z)
        self.lin = nn.Linear(c_z, heads, bias=False)

    def forward(self, z):
        return self.lin(self.norm(z)).permute(0, 3, 1, 2).contiguous()


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))

    def forward(self, x):
        return self.net(x)


class OuterProductMean(nn.Module):
    def __init__(self, c, c_z, h=8):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.a, self.b = nn.Linear(c, h), nn.Linear(c, h)
        self.out = nn.Linear(h * h, c_z)

    def forward(self, msa):
        m = self.norm(msa)
        o = torch.einsum("bsia,bsjc->bijac", self.a(m), self.b(m)) / msa.shape[1]
        return self.out(o.flatten(-2))


class Trunk(nn.Module):
    def __init__(self, c=32, c_z=16, heads=4, blocks=3, recycles=2):
        super().__init__()
        self.to_bias = PairToBias(c_z, heads)
        self.rows = nn.ModuleList(MSARowAttention(c, heads, 8) for _ in range(blocks))
        self.trans = nn.ModuleList(Transition(c) for _ in range(blocks))
        self.opm = OuterProductMean(c, c_z)
        self.recycles = recycles

    def forward(self, msa, pair, res_mask=None):
        for _ in range(self.recycles):
            bias = self.to_bias(pair)
            for row, tr in zip(self.rows, self.trans):
                msa = msa + row(msa, bias, res_mask)
                msa = msa + tr(msa)
            pair = pair + self.opm(msa)
        return msa, pair
