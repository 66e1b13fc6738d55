"""CPU reference of the paged decode kernel of our serving engine.

KV memory is cut into pages of PAGE tokens; every request owns a row of the block
table.  The reference walks page by page with a running maximum, exactly like the
kernel does, so that intermediate values can be compared.
"""
import numpy as np

PAGE = 4


class PagePool:
    def __init__(self, n_pages, n_kv_heads, head_dim, dtype=np.float32):
        self.k = np.zeros((n_pages, PAGE, n_kv_heads, head_dim), dtype)
        self.v = np.zeros((n_pages, PAGE, n_kv_heads, head_dim), dtype)
        self.free = list(range(n_pages))[::-1]

    def alloc(self):
        if not self.free:
            raise MemoryError("out of KV pages")
        return self.free.pop()


class Request:
    def __init__(self):
        self.blocks = []
        self.length = 0


def append_token(pool: PagePool, req: Request, k, v):
    """k, v: [n_kv_heads, head_dim] of one new token."""
    if req.length % PAGE == 0:
        req.blocks.append(pool.alloc())
    page, slot = req.blocks[req.length // PAGE], req.length % PAGE
    pool.k[page, slot] = k
    pool.v[page, slot] = v
    req.length += 1


def paged_attention_decode(q, k_pages, v_pages, block_tables, context_lens, scale=None):
    """One query token per request.

    q             [B, Hq, D]
    k/v_pages     [n_pages, PAGE, Hkv, D]
    block_tables  [B, max_blocks] int, unused entries are -1
    context_lens  [B] number of valid tokens (the query's own token included)
    returns       [B, Hq, D]; zeros for a request of length 0
    """
    B, Hq, D = q.shape
    Hkv = k_pages.shape[2]
    group = Hq // Hkv
    scale = D ** -0.5 if scale is None else scale
    out = np.zeros((B, Hq, D), dtype=np.float64)
    for b in range(B):
        n = int(context_lens[b])
        m = np.full((Hq,), -np.inf)
        l = np.zeros((Hq,))
        acc = np.zeros((Hq, D))
        qb = q[b].astype(np.float64).reshape(Hkv, group, D) * scale
        for i in range((n + PAGE - 1) // PAGE):
            page = block_tables[b, i]
            fill = min(PAGE, n - i * PAGE)
            k = k_pages[page, :fill].astype(np.float64)
            v = v_pages[page, :fill].astype(np.float64)
            s = np.einsum("hgd,thd->hgt", qb, k).reshape(Hq, fill)
            m_new = np.maximum(m, s.max(axis=-1))
            alpha = np.exp(m - m_new)
            p = np.exp(s - m_new[:, None])
            l = l * alpha + p.sum(axis=-1)
            pv = np.einsum("hgt,thd->hgd", p.reshape(Hkv, group, fill), v)
            acc = acc * alpha[:, None] + pv.reshape(Hq, D)
            m = m_new
        if n:
            out[b] = acc / l[:, None]
    return out.astype(q.dtype)


def table_of(requests):
    width = max(1, max(len(r.blocks) for r in requests))
    t = np.full((len(requests), width), -1, dtype=np.int64)
    for i, r in enumerate(requests):
        t[i, :len(r.blocks)] = r.blocks
    return t, np.array([r.length for r in requests])


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    pool, reqs = PagePool(16, 2, 8), [Request(), Request()]
    for n, r in zip((3, 9), reqs):
        for _ in range(n):
            append_token(pool, r, rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    print(paged_attention_decode(rng.normal(size=(2, 4, 8)), pool.k, pool.v, *table_of(reqs)).shape)
