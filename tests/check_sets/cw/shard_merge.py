import numpy as np


def _part(q, k, v):
    """One shard: normalised output and the natural log of its normaliser."""
    s = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(q.shape[-1])
    m = s.max(-1, keepdims=True)
    e = np.exp(s - m)
    z = e.sum(-1, keepdims=True)
    return (e / z) @ v, (m + np.log(z))[..., 0]


def attend_shards(q, shards):
    """Attention over keys that are spread over several workers.

    q: (H, Lq, D). shards: list of (k, v) with k (H, n, D) and v (H, n, Dv); n differs from
    shard to shard and may be 0. The result equals attention over the concatenated keys, which
    must not all be empty. Returns (out (H, Lq, Dv), lse (H, Lq)).
    """
    parts = [_part(q, k, v) for k, v in shards if k.shape[1] > 0]
    if not parts:
        raise ValueError("no keys at all")
    out, lse = parts[0]
    for o2, l2 in parts[1:]:
        total = np.logaddexp(lse, l2)
        w1 = np.exp(lse - total)[..., None]
        w2 = np.exp(l2 - total)[..., None]
        out = w1 * out + w2 * o2
        lse = total
    return out, lse
