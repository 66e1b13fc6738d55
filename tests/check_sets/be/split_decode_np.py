"""Flash-decoding reference for our FPGA kernel (NumPy model of the hardware).

The hardware has exp2 and log2 units only, so scores are pre-multiplied by
log2(e).  Each core reduces a slice of the context to (out, lse); the host merges.
"""
import numpy as np

LOG2E = 1.4426950408889634


def core_reduce(q, k, v, scale):
    """One core.  q (H, D), k (n, H, D), v (n, H, E) -> out (H, E), lse (H,)"""
    s = np.einsum("hd,nhd->hn", q, k) * (scale * LOG2E)
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    total = p.sum(axis=1)
    out = np.einsum("hn,nhe->he", p, v) / total[:, None]
    lse = m + np.log2(total)
    return out, lse


def host_merge(outs, lses):
    """outs list of (H, E), lses list of (H,) -> (H, E), lse (H,)"""
    o = np.stack(outs)
    l = np.stack(lses)
    top = l.max(axis=0)
    w = np.exp(l - top)
    z = w.sum(axis=0)
    merged = (o * w[..., None]).sum(axis=0) / z[:, None]
    return merged, top + np.log(z)


def slices(n, cores):
    """Nearly equal, non-empty parts."""
    edges = np.linspace(0, n, min(cores, n) + 1).astype(int)
    return list(zip(edges[:-1], edges[1:]))


def split_decode(q, k_cache, v_cache, cores=4, scale=None):
    """Softmax attention of one query per head over the full cache.

    q (H, D), k_cache (n, H, D), v_cache (n, H, E).  The result does not depend
    on the number of cores.
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    outs, lses = [], []
    for a, b in slices(len(k_cache), cores):
        o, l = core_reduce(q, k_cache[a:b], v_cache[a:b], scale)
        outs.append(o)
        lses.append(l)
    return host_merge(outs, lses)[0]


class DecodeStream:
    """Grows the cache and decodes one token at a time."""

    def __init__(self, heads, dim, cores=4):
        self.k = np.zeros((0, heads, dim))
        self.v = np.zeros((0, heads, dim))
        self.cores = cores

    def push(self, q, k, v):
        self.k = np.concatenate([self.k, k[None]])
        self.v = np.concatenate([self.v, v[None]])
        return split_decode(q, self.k, self.v, self.cores)
