import numpy as np

LOG2E = 1.4426950408889634


def partial_attention(q, k, v):
    """Attention of q (H, d) over one piece of the cache, k and v (n, H, d); also its log-sum-exp in base 2."""
    s = np.einsum("hd,nhd->hn", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    m = s.max(-1, keepdims=True)
    p = np.exp2(s - m)
    total = p.sum(-1, keepdims=True)
    return np.einsum("hn,nhd->hd", p / total, v), (m + np.log2(total))[:, 0]


def flash_decode(q, k, v, num_splits=2):
    """One query over a long cache, in ``num_splits`` pieces that are merged by their log-sum-exps.

    q (H, d), k and v (n, H, d) -> (H, d): softmax(q k^T / sqrt(d)) v, whatever the number of splits.
    """
    parts = [
        partial_attention(q, kc, vc)
        for kc, vc in zip(np.array_split(k, num_splits), np.array_split(v, num_splits))
        if len(kc)
    ]
    outs = np.stack([o for o, _ in parts])
    lse = np.stack([l for _, l in parts])
    w = np.exp(lse - lse.max(0))
    w = w / w.sum(0)
    return (w[..., None] * outs).sum(0)
