"""Decode-time attention over a paged KV cache, reference implementation for kernel tests.

q          (S, Hq, d)             one query token per sequence
k_pages    (P, page, Hkv, d)      physical pages shared by all sequences
v_pages    (P, page, Hkv, d)
table      (S, max_pages) int     table[s, n] = physical page of tokens n*page .. n*page+page-1;
                                  unused entries are -1
ctx_lens   (S,) int >= 1          tokens in the cache, the current token included
returns    (S, Hq, d)

Grouped heads: query heads h*g .. h*g+g-1 read kv head h, g = Hq // Hkv.  Scale 1/sqrt(d).
Only one page is read at a time (running max / running sum).
"""
import numpy as np


def paged_decode(q, k_pages, v_pages, table, ctx_lens):
    S, Hq, d = q.shape
    page, Hkv = k_pages.shape[1:3]
    g = Hq // Hkv
    out = np.empty_like(q)
    for s in range(S):
        qs = q[s].reshape(Hkv, g, d) / np.sqrt(d)
        top = np.full((Hkv, g), -np.inf)
        den = np.zeros((Hkv, g))
        acc = np.zeros((Hkv, g, d))
        left = int(ctx_lens[s])
        for phys in table[s]:
            if left <= 0:
                break
            n = min(left, page)
            k = k_pages[phys, :n]
            v = v_pages[phys, :n]
            z = np.einsum("hgd,nhd->hgn", qs, k)
            new = np.maximum(top, z.max(-1))
            fix = np.exp(top - new)
            e = np.exp(z - new[..., None])
            den = den * fix + e.sum(-1)
            acc = acc * fix[..., None] + np.einsum("hgn,nhd->hgd", e, v)
            top = new
            left -= n
        out[s] = (acc / den[..., None]).reshape(Hq, d)
    return out
