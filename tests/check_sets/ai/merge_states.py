"""Cascade attention for requests that share a system prompt.

The shared prefix is attended once for the whole batch, the private suffix per
request; both partial results carry a log-sum-exp and are merged afterwards.
The merged result equals plain attention over prefix ++ suffix.
"""
import math
from typing import NamedTuple

import torch
from torch import Tensor

LOG2E = math.log2(math.e)


class State(NamedTuple):
    out: Tensor   # [batch, heads, head_dim]
    lse: Tensor   # [batch, heads]


def partial_state(q: Tensor, k: Tensor, v: Tensor, valid: Tensor = None) -> State:
    """q [batch, heads, d]; k, v [batch or 1, n, heads, d]; valid [batch, n] bool, True = real token.

    Works with exp2 like the fused kernel: one multiplication by log2(e) is
    folded into the scale.
    """
    scale = LOG2E / math.sqrt(q.size(-1))
    k, v = k.expand(q.size(0), -1, -1, -1), v.expand(q.size(0), -1, -1, -1)
    s = torch.einsum("bhd,bnhd->bhn", q.float(), k.float()) * scale
    if valid is not None:
        s = s.masked_fill(~valid[:, None, :], float("-inf"))
    m = s.amax(dim=-1, keepdim=True)
    p = torch.exp2(s - m)
    l = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("bhn,bnhd->bhd", p / l, v.float())
    return State(out, (m + torch.log2(l)).squeeze(-1))


def merge_state(a: State, b: State) -> State:
    top = torch.maximum(a.lse, b.lse)
    wa = torch.exp(a.lse - top)
    wb = torch.exp(b.lse - top)
    total = wa + wb
    out = (a.out * wa.unsqueeze(-1) + b.out * wb.unsqueeze(-1)) / total.unsqueeze(-1)
    return State(out, top + torch.log(total))


def cascade_attention(q, shared_k, shared_v, own_k, own_v, own_len):
    """
    q                   [batch, heads, d]
    shared_k, shared_v  [n_shared, heads, d]
    own_k, own_v        [batch, n_own, heads, d], right padded
    own_len             [batch], at least 1 (the token being decoded)
    """
    prefix = partial_state(q, shared_k.unsqueeze(0), shared_v.unsqueeze(0))
    valid = torch.arange(own_k.size(1), device=q.device)[None, :] < own_len[:, None]
    suffix = partial_state(q, own_k, own_v, valid)
    return merge_state(prefix, suffix).out.to(q.dtype)


class PrefixTable:
    """Finds the longest stored prompt that a request starts with."""

    def __init__(self):
        self._entries = {}

    def put(self, tokens, k, v):
        self._entries[tuple(tokens)] = (k, v)

    def lookup(self, tokens):
        best = None
        for key in self._entries:
            if len(key) < len(tokens) and tuple(tokens[:len(key)]) == key:
                if best is None or len(key) > len(best):
                    best = key
        return (len(best), *self._entries[best]) if best is not None else None


def group_by_prefix(requests, table: PrefixTable):
    """requests: list of token lists -> {n_shared: [indices]}"""
    groups = {}
    for i, tokens in enumerate(requests):
        hit = table.lookup(tokens)
        groups.setdefault(hit[0] if hit else 0, []).append(i)
    return groups
