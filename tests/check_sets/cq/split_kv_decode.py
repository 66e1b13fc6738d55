"""Flash-decoding: one query token against a long KV cache that is split over workers.

Every split returns its own normalised output and log-sum-exp; the partial results are merged
afterwards.  The result is the same as softmax(q K^T / sqrt(d)) V over the whole cache, whatever
the number of splits.
"""
import math

import torch

LOG2E = math.log2(math.e)


def partial_attention(q, k, v):
    """Attention over one split of the cache.

    q: (B, H, d), k, v: (B, H, S, d)  ->  out (B, H, d), lse (B, H)
    exp2 is what the GPU has in hardware, so 1/ln(2) is folded into the scale.
    """
    sm_scale = LOG2E / math.sqrt(q.size(-1))
    s = torch.einsum("bhd,bhsd->bhs", q, k) * sm_scale
    m = s.amax(dim=-1)
    p = torch.exp2(s - m[..., None])
    total = p.sum(dim=-1)
    out = torch.einsum("bhs,bhsd->bhd", p, v) / total[..., None]
    lse = m + torch.log2(total)
    return out, lse


def merge_partials(outs, lses):
    """outs: (n, B, H, d), lses: (n, B, H) -> (B, H, d), (B, H)"""
    top = lses.amax(dim=0)
    w = torch.exp(lses - top)
    denom = w.sum(dim=0)
    merged = (outs * (w / denom)[..., None]).sum(dim=0)
    return merged, top + torch.log(denom)


def split_kv_decode(q, k_cache, v_cache, n_splits=4):
    """
    q: (B, H, d) the newest token
    k_cache, v_cache: (B, H, S, d), the newest token included
    returns (B, H, d)
    """
    S = k_cache.size(2)
    size = math.ceil(S / min(n_splits, S))
    outs, lses = [], []
    for start in range(0, S, size):
        o, l = partial_attention(
            q, k_cache[:, :, start : start + size], v_cache[:, :, start : start + size]
        )
        outs.append(o)
        lses.append(l)
    merged, _ = merge_partials(torch.stack(outs), torch.stack(lses))
    return merged
