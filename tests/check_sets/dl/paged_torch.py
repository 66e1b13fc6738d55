"""Paged KV cache for a toy inference engine (torch, gather instead of a kernel).

pool_k, pool_v: (num_pages, page, Hkv, d).  A request's pages are listed in order in its row
of `tables`.  Grouped-query attention as in Llama 2 70B: with G = H // Hkv, the query heads
g*G, g*G + 1, ..., g*G + G - 1 share KV head g.
"""
import torch
import torch.nn.functional as F


class PagePool:
    def __init__(self, num_pages, page, kv_heads, d):
        self.page = page
        self.k = torch.zeros(num_pages, page, kv_heads, d)
        self.v = torch.zeros(num_pages, page, kv_heads, d)
        self.free = list(range(num_pages))[::-1]

    def take(self):
        return self.free.pop()

    def store(self, pages, at, k, v):
        """Write one token's k, v (Hkv, d) at logical place `at`; may append to `pages`."""
        if at // self.page == len(pages):
            pages.append(self.take())
        self.k[pages[at // self.page], at % self.page] = k
        self.v[pages[at // self.page], at % self.page] = v


def paged_decode(q, pool, tables, lengths):
    """q: (R, H, d), the newest token's query of each request, whose key and value have been
    stored already.  pool: PagePool.  tables: (R, M) int64, unused entries 0.
    lengths: (R,), tokens stored per request, >= 1.
    Returns (R, H, d): softmax over the request's own tokens, scale 1/sqrt(d)."""
    r, h, d = q.shape
    k = pool.k[tables].flatten(1, 2).transpose(1, 2)      # (R, Hkv, M*page, d)
    v = pool.v[tables].flatten(1, 2).transpose(1, 2)
    group = h // k.shape[1]
    k = k.repeat(1, group, 1, 1)
    v = v.repeat(1, group, 1, 1)
    used = torch.arange(k.shape[2])[None, :] < lengths[:, None]
    y = F.scaled_dot_product_attention(q.unsqueeze(2), k, v, attn_mask=used[:, None, None, :])
    return y.squeeze(2)
