"""Decode attention with the cache cut in splits ("flash decoding"), plain PyTorch.

Each split gives a normalised partial output and its log-sum-exp, and the
partial results are merged with weights proportional to exp(lse).
"""
import math

import torch

LOG2E = math.log2(math.e)


def attend_split(q, k, v, valid, scale, softcap):
    """q (B, H, D); k, v (B, H, S, D); valid bool (B, S) -> out (B, H, D), lse (B, H)"""
    s = torch.einsum("bhd,bhsd->bhs", q, k) * scale
    s = s.masked_fill(~valid[:, None, :], float("-inf"))
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    m = s.amax(dim=-1, keepdim=True)
    m = torch.where(torch.isinf(m), torch.zeros_like(m), m)      # empty split
    p = torch.exp(s - m)
    denom = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("bhs,bhsd->bhd", p / denom.clamp_min(1e-30), v)
    lse = torch.log2(denom) + m * LOG2E
    return out, lse.squeeze(-1)


def merge(outs, lses):
    """outs (N, B, H, D), lses (N, B, H)"""
    w = torch.exp(lses - lses.amax(dim=0, keepdim=True))
    w = w / w.sum(dim=0, keepdim=True)
    return (w.unsqueeze(-1) * outs).sum(dim=0)


def split_kv_attention(q, k_cache, v_cache, lengths, num_splits=2, softcap=None):
    """Attention of one new token per sequence over its cache.

    q: (B, H, D); k_cache, v_cache: (B, H, S, D); lengths: (B,), only the first
    lengths[b] >= 1 entries of the cache are valid. softcap: scores are squashed
    to softcap * tanh(score / softcap) if given. The result (B, H, D) does not
    depend on num_splits.
    """
    scale = q.shape[-1] ** -0.5
    valid = torch.arange(k_cache.shape[2], device=q.device)[None, :] < lengths[:, None]
    outs, lses = [], []
    for ks, vs, ok in zip(
        k_cache.chunk(num_splits, dim=2),
        v_cache.chunk(num_splits, dim=2),
        valid.chunk(num_splits, dim=1),
    ):
        o, l = attend_split(q, ks, vs, ok, scale, softcap)
        outs.append(o)
        lses.append(l)
    return merge(torch.stack(outs), torch.stack(lses))
