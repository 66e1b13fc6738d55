"""Split-KV decoding for the edge server: one query per request, the key cache is cut in pages,
each worker answers for its page and the coordinator merges.  NumPy stands in for the kernels.
"""
import numpy as np

LOG2E = 1.4426950408889634


class Page:
    __slots__ = ("k", "v")

    def __init__(self, k, v):
        assert len(k) == len(v)
        self.k, self.v = k, v


def worker(q, page):
    """q (H, d); page.k, page.v (n, H, d).  Answers the page's output and its log-sum-exp.
    The kernel works with exp2, therefore the scale carries log2(e)."""
    d = q.shape[-1]
    s = np.einsum("hd,nhd->hn", q, page.k) * (LOG2E / np.sqrt(d))
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    z = p.sum(axis=1)
    out = np.einsum("hn,nhd->hd", p, page.v) / z[:, None]
    return out, m + np.log2(z)


def coordinator(parts):
    outs = np.stack([o for o, _ in parts])            # (S, H, d)
    lses = np.stack([l for _, l in parts])            # (S, H)
    top = lses.max(axis=0, keepdims=True)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0, keepdims=True)
    return np.einsum("sh,shd->hd", w, outs)


def cut(k, v, page_size):
    return [Page(k[i : i + page_size], v[i : i + page_size]) for i in range(0, len(k), page_size)]


def decode_attention(q, k, v, page_size=16):
    """softmax(q k^T / sqrt(d)) v of every head, computed page by page."""
    return coordinator([worker(q, pg) for pg in cut(k, v, page_size)])


class PagedCache:
    def __init__(self, heads, dim):
        self.k = np.zeros((0, heads, dim))
        self.v = np.zeros((0, heads, dim))

    def append(self, k, v):
        self.k = np.concatenate([self.k, k[None]])
        self.v = np.concatenate([self.v, v[None]])

    def __len__(self):
        return len(self.k)
