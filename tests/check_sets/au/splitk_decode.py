"""Reference (numpy) of our split-K decode kernel: partial results per split, then a merge.

The kernel works with exp2, as the hardware does, so scores are multiplied by log2(e)
beforehand. Every split returns its normalised output and its log-sum-exp.
"""
import numpy as np

LOG2E = 1.4426950408889634


def plan_splits(length, sm_count, heads, min_chunk=16):
    """How many splits keep the multiprocessors busy."""
    want = max(1, sm_count // max(1, heads))
    return int(min(want, max(1, length // min_chunk)))


def partial(q, k, v, scale):
    """One split. q [H, d], k/v [H, n, d] -> out [H, d], lse [H] (log2 domain)."""
    s = np.einsum("hd,hnd->hn", q, k) * (scale * LOG2E)
    m = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - m)
    z = p.sum(axis=-1, keepdims=True)
    out = np.einsum("hn,hnd->hd", p / z, v)
    return out, (m + np.log2(z))[:, 0]


def merge(outs, lses):
    """outs [S, H, d], lses [S, H] -> weighted mean of the splits and the total lse."""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    total = w.sum(axis=0)
    out = (w[..., None] * outs).sum(axis=0) / total[:, None]
    return out, top + np.log(total)


def decode_attention(q, k, v, n_splits):
    """softmax(q k^T / sqrt(d)) v for a single query token, computed in n_splits pieces."""
    H, n, d = k.shape
    edges = np.linspace(0, n, n_splits + 1).astype(int)
    outs, lses = [], []
    for a, b in zip(edges[:-1], edges[1:]):
        if a == b:
            continue
        o, l = partial(q, k[:, a:b], v[:, a:b], 1.0 / np.sqrt(d))
        outs.append(o)
        lses.append(l)
    out, _ = merge(np.stack(outs), np.stack(lses))
    return out


class Quantised:
    """int8 rows with one float scale each, for the value cache."""

    def __init__(self, x):
        self.s = np.abs(x).max(-1, keepdims=True) / 127.0 + 1e-12
        self.q = np.round(x / self.s).astype(np.int8)

    def numpy(self):
        return self.q.astype(np.float32) * self.s


def error_budget(x):
    return float(np.abs(Quantised(x).numpy() - x).max())
