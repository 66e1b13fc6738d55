"""Reference of the split-KV decode for our WebGPU runtime.

The shader works with exp2, hence the partial kernels report their log-sum-exp
in base 2. One query token per sequence, layouts as in the shader:
    q  [heads, dim]      k, v  [tokens, heads, dim]
"""
from dataclasses import dataclass
import numpy as np

LOG2E = 1.4426950408889634


@dataclass
class Partial:
    out: np.ndarray    # [heads, dim], normalised inside its chunk
    lse: np.ndarray    # [heads], log2(sum(exp(score)))


def decode_chunk(q, k, v, scale):
    s = np.einsum("hd,thd->ht", q, k) * (scale * LOG2E)
    m = s.max(axis=1, keepdims=True)
    p = np.exp2(s - m)
    total = p.sum(axis=1, keepdims=True)
    out = np.einsum("ht,thd->hd", p / total, v)
    return Partial(out, (m + np.log2(total))[:, 0])


def merge(parts):
    """Combine the chunks to the attention over all of their tokens."""
    lse = np.stack([p.lse for p in parts])
    top = lse.max(axis=0)
    w = np.exp(lse - top)
    w = w / w.sum(axis=0)
    out = sum(w[i][:, None] * p.out for i, p in enumerate(parts))
    return Partial(out, top + np.log2(np.exp2(lse - top).sum(axis=0)))


def split_ranges(n, chunk):
    return [(a, min(a + chunk, n)) for a in range(0, n, chunk)]


def decode_attention(q, k, v, chunk=256, scale=None):
    """softmax(q k^T * scale) v for one new token, computed chunk by chunk."""
    if scale is None:
        scale = q.shape[-1] ** -0.5
    parts = [decode_chunk(q, k[a:b], v[a:b], scale) for a, b in split_ranges(len(k), chunk)]
    if len(parts) == 1:
        return parts[0].out
    return merge(parts).out


class PagePool:
    """Pages of `page` tokens; a sequence is a list of page numbers."""

    def __init__(self, n_pages, page, heads, dim):
        self.k = np.zeros((n_pages, page, heads, dim), dtype=np.float32)
        self.v = np.zeros_like(self.k)
        self.page = page
        self.free = list(range(n_pages))[::-1]

    def grow(self, table, length, k, v):
        if length % self.page == 0:
            table.append(self.free.pop())
        self.k[table[-1], length % self.page] = k
        self.v[table[-1], length % self.page] = v
        return length + 1

    def gather(self, table, length):
        k = self.k[table].reshape(-1, *self.k.shape[2:])[:length]
        v = self.v[table].reshape(-1, *self.v.shape[2:])[:length]
        return k, v

    def release(self, table):
        self.free.extend(reversed(table))
        table.clear()
