"""Primitives of a protein structure model: gated attention with a list of additive
biases, a chunked low-memory path, and MSA row attention with pair bias."""
import math
from functools import reduce
from operator import add
from typing import List, Optional

import torch
from torch import nn


def permute_final_dims(t: torch.Tensor, inds: List[int]):
    zero_index = -1 * len(inds)
    first_inds = list(range(len(t.shape[:zero_index])))
    return t.permute(first_inds + [zero_index + i for i in inds])


def _attention(query, key, value, biases: List[torch.Tensor]):
    # [*, H, Q, K]
    a = torch.matmul(query, permute_final_dims(key, [1, 0]))
    a = reduce(add, biases, a)
    a = torch.softmax(a.float(), dim=-1).to(value.dtype)
    return torch.matmul(a, value)


def _lma(q, k, v, biases: List[torch.Tensor], q_chunk_size: int, kv_chunk_size: int):
    """Self-attention does not need O(n^2) memory (Rabe & Staats, 2021)."""
    no_q, no_kv = q.shape[-2], k.shape[-2]
    o = q.new_zeros(q.shape[:-1] + v.shape[-1:])
    biases = [b.expand(b.shape[:-2] + (no_q, no_kv)) for b in biases]
    for q_s in range(0, no_q, q_chunk_size):
        q_chunk = q[..., q_s : q_s + q_chunk_size, :]
        maxes, weights, values = [], [], []
        for kv_s in range(0, no_kv, kv_chunk_size):
            k_chunk = k[..., kv_s : kv_s + kv_chunk_size, :]
            v_chunk = v[..., kv_s : kv_s + kv_chunk_size, :]
            a = torch.einsum("...hqd,...hkd->...hqk", q_chunk, k_chunk)
            for b in biases:
                a = a + b[..., q_s : q_s + q_chunk_size, kv_s : kv_s + kv_chunk_size]
            max_a = torch.max(a, dim=-1, keepdim=True)[0]
            exp_a = torch.exp(a - max_a)
            maxes.append(max_a.detach())
            weights.append(torch.sum(exp_a, dim=-1, keepdim=True))
            values.append(torch.matmul(exp_a, v_chunk))
        chunk_max = torch.stack(maxes, dim=0)
        global_max = chunk_max.max(dim=0, keepdim=True)[0]
        diffs = torch.exp(chunk_max - global_max)
        num = (torch.stack(values, dim=0) * diffs).sum(dim=0)
        den = (torch.stack(weights, dim=0) * diffs).sum(dim=0)
        o[..., q_s : q_s + q_chunk_size, :] = num / den
    return o


class Attention(nn.Module):
    def __init__(self, c_q: int, c_k: int, c_v: int, c_hidden: int, no_heads: int, gating: bool = True):
        """c_hidden is the dimension of one head."""
        super().__init__()
        self.c_hidden, self.no_heads, self.gating = c_hidden, no_heads, gating
        self.linear_q = nn.Linear(c_q, c_hidden * no_heads, bias=False)
        self.linear_k = nn.Linear(c_k, c_hidden * no_heads, bias=False)
        self.linear_v = nn.Linear(c_v, c_hidden * no_heads, bias=False)
        self.linear_o = nn.Linear(c_hidden * no_heads, c_q)
        self.linear_g = nn.Linear(c_q, c_hidden * no_heads) if gating else None

    def _prep_qkv(self, q_x, kv_x):
        q, k, v = self.linear_q(q_x), self.linear_k(kv_x), self.linear_v(kv_x)
        q, k, v = (t.view(t.shape[:-1] + (self.no_heads, -1)).transpose(-2, -3) for t in (q, k, v))
        return q / math.sqrt(self.c_hidden), k, v

    def forward(self, q_x, kv_x, biases: Optional[List[torch.Tensor]] = None, use_lma: bool = False,
                lma_q_chunk_size: int = 64, lma_kv_chunk_size: int = 128):
        biases = [] if biases is None else biases
        q, k, v = self._prep_qkv(q_x, kv_x)
        if use_lma:
            o = _lma(q, k, v, biases, lma_q_chunk_size, lma_kv_chunk_size)
        else:
            o = _attention(q, k, v, biases)
        o = o.transpose(-2, -3)
        if self.linear_g is not None:
            g = torch.sigmoid(self.linear_g(q_x))
            o = o * g.view(g.shape[:-1] + (self.no_heads, -1))
        return self.linear_o(o.flatten(-2))


class MSARowAttentionWithPairBias(nn.Module):
    """m [*, S, R, c_m], z [*, R, R, c_z], mask [*, S, R] with 1 = residue, 0 = gap in the crop."""

    def __init__(self, c_m, c_z, c_hidden, no_heads, inf=1e9):
        super().__init__()
        self.inf = inf
        self.layer_norm_m, self.layer_norm_z = nn.LayerNorm(c_m), nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        self.mha = Attention(c_m, c_m, c_m, c_hidden, no_heads)

    def forward(self, m, z, mask=None, use_lma=False, **chunks):
        if mask is None:
            mask = m.new_ones(m.shape[:-1])
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]
        pair = permute_final_dims(self.linear_z(self.layer_norm_z(z)), [2, 0, 1]).unsqueeze(-4)
        m = self.layer_norm_m(m)
        return self.mha(m, m, biases=[mask_bias, pair], use_lma=use_lma, **chunks)
