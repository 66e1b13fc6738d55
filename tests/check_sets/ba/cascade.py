"""Cascade decoding: a system prompt shared by all users + each user's own suffix.

The shared part is computed once for the batch, the suffix per user; the two
states are merged. The kernels are emulated in torch with exp2 as on the card.
"""
import math
from typing import NamedTuple

import torch

LOG2E = 1.4426950408889634


class State(NamedTuple):
    out: torch.Tensor   # [B, H, d], normalised
    lse: torch.Tensor   # [B, H]


def partial_attention(q, k, v) -> State:
    """q [B,H,d]; k, v [B,S,H,d]"""
    s = torch.einsum("bhd,bshd->bhs", q, k) * (LOG2E / math.sqrt(q.shape[-1]))
    m = s.amax(dim=-1, keepdim=True)
    p = torch.exp2(s - m)
    z = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("bhs,bshd->bhd", p / z, v)
    return State(out, (m + torch.log2(z)).squeeze(-1))


def merge_states(a: State, b: State) -> State:
    m = torch.maximum(a.lse, b.lse)
    wa = torch.exp(a.lse - m)
    wb = torch.exp(b.lse - m)
    z = wa + wb
    out = (wa / z).unsqueeze(-1) * a.out + (wb / z).unsqueeze(-1) * b.out
    return State(out, m + torch.log(z))


class CascadeDecoder:
    """register(prefix) once, then append(user, ...) and attend(users, q)."""

    def __init__(self, heads: int, dim: int):
        self.heads, self.dim = heads, dim
        self.prefix = None
        self.suffix = {}

    def register(self, k, v):
        """k, v [S,H,d] of the system prompt"""
        self.prefix = (k, v)
        self.suffix.clear()

    def append(self, user, k, v):
        """k, v [T,H,d]"""
        if user in self.suffix:
            old_k, old_v = self.suffix[user]
            k, v = torch.cat([old_k, k]), torch.cat([old_v, v])
        self.suffix[user] = (k, v)

    def attend(self, users, q):
        """q [B,H,d], newest token of each user, sees the prefix and its own suffix."""
        B = len(users)
        pk, pv = self.prefix
        shared = partial_attention(q, pk.expand(B, *pk.shape), pv.expand(B, *pv.shape))
        rows = []
        for i, u in enumerate(users):
            own = partial_attention(q[i:i + 1], *(t[None] for t in self.suffix[u]))
            rows.append(merge_states(State(shared.out[i:i + 1], shared.lse[i:i + 1]), own).out)
        return torch.cat(rows)
