"""Sequence-parallel decoding: every rank holds a slice of the context, computes attention on
it, and rank 0 merges the partial results.

As on the GPU the inner loop works with exp2 (cheaper there): logits are multiplied by
log2(e) beforehand.
"""
import numpy as np

LOG2E = 1.4426950408889634


def rank_attention(q, k, v):
    """One rank's share.  q (H, d); k, v (n, H, d), n >= 1.

    Returns o (H, d), normalised on this slice, and lse (H,), the log of the slice's sum of
    exp(logit)."""
    z = np.einsum("hd,nhd->hn", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    top = z.max(axis=-1)
    p = np.exp2(z - top[:, None])
    total = p.sum(axis=-1)
    o = np.einsum("hn,nhd->hd", p, v) / total[:, None]
    return o, top + np.log2(total)


def merge(outs, lses):
    """outs: list of (H, d); lses: list of (H,).  The result is what one rank with the whole
    context would have given."""
    lses = np.stack(lses)
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return np.einsum("rh,rhd->hd", w, np.stack(outs))


def parallel_decode(q, slices):
    """q (H, d): the newest token.  slices: list of (k, v), each (n_r, H, d), which together
    are the context (that token included).
    Returns softmax(q k^T / sqrt(d)) v over the whole context, (H, d)."""
    parts = [rank_attention(q, k, v) for k, v in slices]
    return merge([o for o, _ in parts], [l for _, l in parts])
