"""numpy model of the split-K decode kernel and of its reduction.

Kernel side works in powers of two (exp2 / log2 are cheaper on the device): logits are
multiplied with log2(e) first.  decode() equals ordinary attention of one query.
"""
import numpy as np

LOG2E = 1.4426950408889634


class PartialResult:
    __slots__ = ("out", "lse")

    def __init__(self, out, lse):
        self.out, self.lse = out, lse


def split_kernel(q, k, v, scale):
    """q (H, d), k/v (n, H, d): one chunk -> PartialResult, out (H, d), lse (H,)"""
    t = np.einsum("hd,nhd->hn", q, k) * (scale * LOG2E)
    m = t.max(axis=1)
    p = np.exp2(t - m[:, None])
    z = p.sum(axis=1)
    out = np.einsum("hn,nhd->hd", p, v) / z[:, None]
    return PartialResult(out, m + np.log2(z))


def reduce_partials(parts):
    """weighted mean of the chunk outputs, weights from the log-sum-exp of each chunk"""
    lse = np.stack([p.lse for p in parts])
    m = lse.max(axis=0)
    w = np.exp(lse - m)
    w = w / w.sum(axis=0)
    return sum(wi[:, None] * p.out for wi, p in zip(w, parts))


def choose_splits(n, workers, min_chunk=16):
    per = max(min_chunk, -(-n // workers))
    return list(range(0, n, per)) + [n]


def decode(q, k, v, workers=4, min_chunk=16, scale=None):
    """q (H, d) the newest query; k, v (n, H, d) the whole cache"""
    if scale is None:
        scale = q.shape[-1] ** -0.5
    cuts = choose_splits(len(k), workers, min_chunk)
    parts = [split_kernel(q, k[a:b], v[a:b], scale) for a, b in zip(cuts[:-1], cuts[1:])]
    if len(parts) == 1:
        return parts[0].out
    return reduce_partials(parts)


def traffic_bytes(n, heads, d, workers, itemsize=2, min_chunk=16):
    """estimate used by the scheduler"""
    parts = len(choose_splits(n, workers, min_chunk)) - 1
    return 2 * n * heads * d * itemsize + parts * heads * (d + 1) * 4
