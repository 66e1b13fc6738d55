"""Blog code: attention over a key/value store that lives on several workers.

Every worker computes the attention of the query over ITS keys and also the log-sum-exp of its
logits. The partial results are then merged exactly:

    lse = log( sum_w exp(lse_w) )
    out = sum_w exp(lse_w - lse) out_w

so that the result equals the attention over all keys in one place.

q (H, d); shards = list of (k (n_w, H, d), v (n_w, H, e)), n_w >= 1; logits q.k / sqrt(d).
Returns (H, e).
"""
import numpy as np

LOG2E = 1.4426950408889634


def worker(q, k, v):
    """Partial result of one worker: out (H, e) and lse (H,)."""
    # the kernel works with exp2, which is cheaper on our hardware
    s = np.einsum("hd,nhd->hn", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    m = s.max(-1, keepdims=True)
    p = np.exp2(s - m)
    l = p.sum(-1, keepdims=True)
    out = np.einsum("hn,nhe->he", p / l, v)
    lse = m + np.log2(l)
    return out, lse[:, 0]


def merge(parts):
    outs = np.stack([o for o, _ in parts])            # (w, H, e)
    lses = np.stack([l for _, l in parts])            # (w, H)
    top = lses.max(0)
    weight = np.exp(lses - top)
    weight = weight / weight.sum(0)
    return (weight[..., None] * outs).sum(0)


def sharded_attention(q, shards):
    return merge([worker(q, k, v) for k, v in shards])
