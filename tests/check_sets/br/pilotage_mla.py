"""Latent-attention layer of the harbour pilotage assistant (one file, no kernels).

Keys and values of all heads are rebuilt from one small latent per word, and only the
latent plus one shared rotary key are cached.  ``absorb=True`` never rebuilds them:
the up-projections move to the query side and to the output side.  Both paths give the
same numbers.
"""
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Hull(NamedTuple):
    dim: int = 96
    heads: int = 6
    q_rank: int = 40
    kv_rank: int = 24
    nope: int = 16
    rope: int = 8
    vdim: int = 12
    max_len: int = 256
    base: float = 10000.0


class Berth:
    """Cache of one conversation batch."""

    def __init__(self, batch: int, c: Hull, dtype=torch.float32):
        self.latent = torch.zeros(batch, c.max_len, c.kv_rank, dtype=dtype)
        self.kpe = torch.zeros(batch, c.max_len, c.rope, dtype=dtype)
        self.used = 0

    def put(self, latent: Tensor, kpe: Tensor):
        n = latent.size(1)
        self.latent[:, self.used:self.used + n] = latent.detach()
        self.kpe[:, self.used:self.used + n] = kpe.detach()
        self.used += n
        return self.latent[:, :self.used], self.kpe[:, :self.used]


def rms(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, (x.size(-1),), w, 1e-6)


def spin(x: Tensor, freqs: Tensor) -> Tensor:
    """x [B, T, h, rope]; channel pairs (2i, 2i + 1)."""
    c, s = freqs.cos()[None, :, None], freqs.sin()[None, :, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


class LatentPilot(nn.Module):
    def __init__(self, c: Hull = Hull(), absorb: bool = True):
        super().__init__()
        self.c, self.absorb = c, absorb
        self.wq_a = nn.Linear(c.dim, c.q_rank, bias=False)
        self.q_gain = nn.Parameter(torch.ones(c.q_rank))
        self.wq_b = nn.Linear(c.q_rank, c.heads * (c.nope + c.rope), bias=False)
        self.wkv_a = nn.Linear(c.dim, c.kv_rank + c.rope, bias=False)
        self.kv_gain = nn.Parameter(torch.ones(c.kv_rank))
        self.wkv_b = nn.Linear(c.kv_rank, c.heads * (c.nope + c.vdim), bias=False)
        self.wo = nn.Linear(c.heads * c.vdim, c.dim, bias=False)
        self.scale = (c.nope + c.rope) ** -0.5
        inv = c.base ** (-torch.arange(0, c.rope, 2).float() / c.rope)
        self.register_buffer("freqs", torch.outer(torch.arange(c.max_len).float(), inv), persistent=False)

    def forward(self, x: Tensor, berth: Optional[Berth] = None) -> Tensor:
        """Causal; with a berth the words of `x` come after everything moored there."""
        c = self.c
        B, T, _ = x.shape
        start = berth.used if berth is not None else 0
        freqs = self.freqs[start:start + T]

        q = self.wq_b(rms(self.wq_a(x), self.q_gain)).view(B, T, c.heads, -1)
        q_nope, q_pe = q.split([c.nope, c.rope], -1)
        q_pe = spin(q_pe, freqs)
        latent, k_pe = self.wkv_a(x).split([c.kv_rank, c.rope], -1)
        latent = rms(latent, self.kv_gain)
        k_pe = spin(k_pe.unsqueeze(2), freqs).squeeze(2)
        if berth is not None:
            latent, k_pe = berth.put(latent, k_pe)

        up = self.wkv_b.weight.view(c.heads, c.nope + c.vdim, c.kv_rank)
        up_k, up_v = up[:, :c.nope], up[:, c.nope:]
        rot = torch.einsum("bthr,bsr->bhts", q_pe, k_pe)
        if self.absorb:
            q_lat = torch.einsum("bthn,hnr->bthr", q_nope, up_k)
            s = torch.einsum("bthr,bsr->bhts", q_lat, latent) + rot
        else:
            k_nope = torch.einsum("bsr,hnr->bshn", latent, up_k)
            s = torch.einsum("bthn,bshn->bhts", q_nope, k_nope) + rot
        s = s * self.scale
        if T > 1:
            S = latent.size(1)
            s = s + torch.full((T, S), float("-inf"), device=x.device).triu(start + 1)
        p = s.softmax(-1, dtype=torch.float32).type_as(x)
        if self.absorb:
            y = torch.einsum("bhts,bsr->bthr", p, latent)
            y = torch.einsum("bthr,hvr->bthv", y, up_v)
        else:
            y = torch.einsum("bhts,bshv->bthv", p, torch.einsum("bsr,hvr->bshv", latent, up_v))
        return self.wo(y.flatten(2))


if __name__ == "__main__":
    torch.manual_seed(0)
    m = LatentPilot().eval()
    words = torch.randn(2, 9, 96)
    b = Berth(2, m.c)
    with torch.no_grad():
        step = torch.cat([m(words[:, :5], b), m(words[:, 5:], b)], 1)
        print((step - m(words)).abs().max())
