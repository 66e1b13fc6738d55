"""Shared-prefix decoding for the carillon assistant.

All visitors of one tower share the same (long) system prompt; its keys and values are stored
once, without a batch axis.  A decoding step reads the shared part and every visitor's own part
separately, and joins the two partial results by their log-sum-exp (natural logarithm).

Shapes:  q [B, H, d]   shared k/v [Lp, H, d]   own k/v [B, Ls, H, d], own_len [B]
"""
from dataclasses import dataclass, field
from typing import Tuple

import torch


@dataclass
class Partial:
    out: torch.Tensor      # [B, H, d], normalised within its own part
    lse: torch.Tensor      # [B, H]


def read_shared(q, k, v, scale) -> Partial:
    s = torch.einsum("bhd,lhd->bhl", q, k).float() * scale
    lse = torch.logsumexp(s, dim=-1)
    p = torch.exp(s - lse[..., None])
    return Partial(torch.einsum("bhl,lhd->bhd", p, v.float()), lse)


def read_own(q, k, v, own_len, scale) -> Partial:
    s = torch.einsum("bhd,blhd->bhl", q, k).float() * scale
    written = torch.arange(k.shape[1], device=q.device)[None] < own_len[:, None]
    s = s.masked_fill(~written[:, None], float("-inf"))
    lse = torch.logsumexp(s, dim=-1)
    # a visitor who has not said anything yet: lse = -inf, out = 0
    p = torch.exp(s - torch.where(lse.isinf(), torch.zeros_like(lse), lse)[..., None])
    v = v.float().masked_fill(~written[:, :, None, None], 0.0)
    return Partial(torch.einsum("bhl,blhd->bhd", p, v), lse)


def join(a: Partial, b: Partial) -> Partial:
    top = torch.maximum(a.lse, b.lse)
    wa, wb = torch.exp(a.lse - top), torch.exp(b.lse - top)
    total = wa + wb
    out = (a.out * wa[..., None] + b.out * wb[..., None]) / total[..., None]
    return Partial(out, top + torch.log(total))


def cascade_attention(q, shared_kv: Tuple, own_kv: Tuple, own_len, scale=None):
    """One decoding step; the current token's key is already in the own part (or the own part
    is empty, when the prompt's last token is asked again)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    a = read_shared(q, *shared_kv, scale)
    b = read_own(q, *own_kv, own_len, scale)
    return join(a, b).out.to(q.dtype)


@dataclass
class Tower:
    """Keeps one prompt and the visitors' parts."""
    heads: int
    dim: int
    capacity: int
    prompt: Tuple[torch.Tensor, torch.Tensor] = None
    own_k: torch.Tensor = field(default=None, repr=False)
    own_v: torch.Tensor = field(default=None, repr=False)
    own_len: torch.Tensor = None

    def admit(self, visitors: int):
        shape = (visitors, self.capacity, self.heads, self.dim)
        self.own_k, self.own_v = torch.zeros(shape), torch.zeros(shape)
        self.own_len = torch.zeros(visitors, dtype=torch.long)

    def step(self, q, k, v):
        rows = torch.arange(len(q))
        self.own_k[rows, self.own_len] = k
        self.own_v[rows, self.own_len] = v
        self.own_len = self.own_len + 1
        return cascade_attention(q, self.prompt, (self.own_k, self.own_v), self.own_len)


if __name__ == "__main__":
    torch.manual_seed(47)
    t = Tower(heads=2, dim=8, capacity=6, prompt=(torch.randn(11, 2, 8), torch.randn(11, 2, 8)))
    t.admit(3)
    for _ in range(3):
        print(t.step(*torch.randn(3, 3, 2, 8)).norm())
