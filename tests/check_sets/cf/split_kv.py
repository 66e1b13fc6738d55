"""Split-KV decoding: partial results and their merge (numpy model of the kernel).

The cache of a long sequence is cut into ``n_splits`` parts.  Each part yields a
normalised output and the natural log of its sum of exponentials; the merge
weighs the parts by exp(lse - max lse).  Every head also has a learned *sink*
logit that takes part in the normalisation but carries no value, therefore the
weights over the real keys sum to less than one (as in gpt-oss).
"""
import numpy as np


def partial(q, k, v, scale):
    """q (H, d); k, v (S, H, d) -> out (H, d), lse (H,)."""
    s = np.einsum("hd,shd->hs", q, k) * scale
    m = s.max(axis=1)
    p = np.exp(s - m[:, None])
    total = p.sum(axis=1)
    out = np.einsum("hs,shd->hd", p, v) / total[:, None]
    return out, m + np.log(total)


def merge(outs, lses, sink):
    """outs (P, H, d), lses (P, H), sink (H,) -> (H, d)."""
    top = np.maximum(lses.max(axis=0), sink)
    w = np.exp(lses - top)
    denom = w.sum(axis=0) + np.exp(sink - top)
    return np.einsum("ph,phd->hd", w, outs) / denom[:, None]


def decode_one(q, k, v, sink, n_splits=4):
    """One sequence, one new token; every cached key is visible."""
    n = k.shape[0]
    if n == 0:
        return np.zeros_like(q)
    scale = q.shape[-1] ** -0.5
    edges = np.linspace(0, n, min(n_splits, n) + 1).astype(int)
    outs, lses = [], []
    for a, b in zip(edges[:-1], edges[1:]):
        o, l = partial(q, k[a:b], v[a:b], scale)
        outs.append(o)
        lses.append(l)
    return merge(np.stack(outs), np.stack(lses), sink)


def split_kv_decode(q, k_cache, v_cache, lengths, sink, n_splits=4):
    """Batch of decode steps.

    q (B, H, d); k_cache, v_cache (B, S_max, H, d); lengths (B,) tokens in use;
    sink (H,).  Returns (B, H, d).
    """
    q = np.asarray(q, dtype=np.float32)
    rows = [decode_one(q[b], k_cache[b, :n], v_cache[b, :n], sink, n_splits)
            for b, n in enumerate(lengths)]
    return np.stack(rows)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    q = g.standard_normal((3, 4, 8))
    kv = g.standard_normal((2, 3, 64, 4, 8)).astype("float32")
    print(split_kv_decode(q, kv[0], kv[1], [64, 17, 3], np.zeros(4, "float32")).shape)
