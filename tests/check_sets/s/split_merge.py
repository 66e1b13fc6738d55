"""Flash-decoding on the host: the KV range is cut into splits, each split gives a
partial result and its log-sum-exp, and the partials are merged at the end."""
import numpy as np

LOG2E = 1.4426950408889634


def partial(q, k, v, sm_scale):
    # exp2 like in the kernels
    qk = np.einsum("hd,shd->hs", q, k) * (sm_scale * LOG2E)
    m = qk.max(-1)
    p = np.exp2(qk - m[:, None])
    l = p.sum(-1)
    o = np.einsum("hs,shd->hd", p, v) / l[:, None]
    lse = m + np.log2(l)
    return o, lse


def merge(outs, lses):
    lses = np.stack(lses)                       # (n, H)
    top = lses.max(0)
    w = np.exp(lses - top)
    w = w / w.sum(0)
    return np.einsum("nh,nhd->hd", w, np.stack(outs))


def decode(q, k, v, num_splits=4):
    """q (H, d), k and v (S, H, d) -> (H, d)"""
    sm_scale = q.shape[-1] ** -0.5
    parts = [partial(q, kk, vv, sm_scale)
             for kk, vv in zip(np.array_split(k, num_splits), np.array_split(v, num_splits))
             if len(kk)]
    return merge([o for o, _ in parts], [s for _, s in parts])
