"""Flash-decoding for teaching: one new token, a long cache, the cache cut in splits which
could run at the same time; every split returns its own normalised output and its lse, and
merge_states joins them to the exact softmax attention over the entire cache.

As in the GPU kernels, the split works with exp2: log2(e) is folded into the scores.
q [H, d], k and v [S, H, d]
"""
import numpy as np

LOG2E = 1.4426950408889634


def split_attention(q, k, v):
    """-> o [H, d] (normalised), lse [H] = log2(sum(2^t)), t = scaled score * log2(e)"""
    t = np.einsum("hd,shd->hs", q, k) * (q.shape[-1] ** -0.5 * LOG2E)
    m = t.max(axis=-1, keepdims=True)
    e = np.exp2(t - m)
    z = e.sum(axis=-1, keepdims=True)
    o = np.einsum("hs,shd->hd", e / z, v)
    return o, (m + np.log2(z))[:, 0]


def merge_states(o_a, lse_a, o_b, lse_b):
    top = np.maximum(lse_a, lse_b)
    w_a, w_b = np.exp(lse_a - top), np.exp(lse_b - top)
    total = w_a + w_b
    o = (o_a * w_a[:, None] + o_b * w_b[:, None]) / total[:, None]
    return o, top + np.log(total)


class PagedCache:
    def __init__(self, heads, dim, page=16):
        self.page, self.heads, self.dim = page, heads, dim
        self.k_pages, self.v_pages, self.length = [], [], 0

    def append(self, k, v):
        """k, v [heads, dim]"""
        if self.length % self.page == 0:
            self.k_pages.append(np.zeros((self.page, self.heads, self.dim)))
            self.v_pages.append(np.zeros((self.page, self.heads, self.dim)))
        slot = self.length % self.page
        self.k_pages[-1][slot], self.v_pages[-1][slot] = k, v
        self.length += 1

    def pages(self):
        for n, (k, v) in enumerate(zip(self.k_pages, self.v_pages)):
            used = min(self.page, self.length - n * self.page)
            yield k[:used], v[:used]


def decode_step(q, cache):
    """attention of one query over everything in the cache, [H, d]"""
    state = None
    for k, v in cache.pages():
        part = split_attention(q, k, v)
        state = part if state is None else merge_states(*state, *part)
    return state[0]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    c = PagedCache(2, 8, page=4)
    for _ in range(11):
        c.append(rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    print(decode_step(rng.normal(size=(2, 8)), c).round(3))
