# pagoda -- a toy paged-KV serving core.  Pure torch, no kernels, meant as the
# oracle that the Triton version is diffed against in CI.
#
# Layout notes
#   k_pages, v_pages : [n_pages, page, n_kv, hd]
#   block_table      : [batch, max_blocks] int, -1 where a sequence has no block
#   context_lens     : [batch] int, tokens *already stored*, the newest included
# Query heads are grouped consecutively: heads 0..g-1 use kv head 0, and so on.
import torch


class PagePool:
    def __init__(self, n_pages, page, n_kv, hd, dtype=torch.float32):
        self.k = torch.empty(n_pages, page, n_kv, hd, dtype=dtype)
        self.v = torch.empty(n_pages, page, n_kv, hd, dtype=dtype)
        self.page = page
        self.free = list(range(n_pages - 1, -1, -1))
        self.owned = {}    # request id -> [page ids]
        self.length = {}   # request id -> tokens

    def append(self, rid, k, v):
        """Store one token; k, v: [n_kv, hd]."""
        n = self.length.get(rid, 0)
        pages = self.owned.setdefault(rid, [])
        if n == len(pages) * self.page:
            if not self.free:
                raise MemoryError("pool exhausted")
            pages.append(self.free.pop())
        self.k[pages[-1], n % self.page] = k
        self.v[pages[-1], n % self.page] = v
        self.length[rid] = n + 1

    def release(self, rid):
        self.free.extend(reversed(self.owned.pop(rid, [])))
        self.length.pop(rid, None)

    def tables(self, rids):
        width = max(len(self.owned.get(r, [])) for r in rids)
        t = torch.full((len(rids), width), -1, dtype=torch.long)
        for i, r in enumerate(rids):
            p = self.owned.get(r, [])
            t[i, : len(p)] = torch.tensor(p, dtype=torch.long)
        return t, torch.tensor([self.length.get(r, 0) for r in rids])


def paged_decode(q, k_pages, v_pages, block_table, context_lens, scale=None):
    """One decode step for a batch of requests of different length.

    q: [batch, n_q, hd], the newest token of each request (its own key is
    already in the pool).  Returns [batch, n_q, hd]; a request with nothing
    stored gets zeros.
    """
    b, n_q, hd = q.shape
    page, n_kv = k_pages.shape[1:3]
    g = n_q // n_kv
    if scale is None:
        scale = hd ** -0.5

    idx = block_table.clamp_min(0)
    k = k_pages[idx].flatten(1, 2)          # b, S, n_kv, hd
    v = v_pages[idx].flatten(1, 2)
    dead = torch.arange(k.shape[1], device=q.device)[None] >= context_lens[:, None]

    # pages are handed out uninitialised: scrub, a NaN times zero is still NaN
    k = k.masked_fill(dead[:, :, None, None], 0)
    v = v.masked_fill(dead[:, :, None, None], 0)

    qg = q.reshape(b, n_kv, g, hd).float() * scale
    s = torch.einsum("bngd,bsnd->bngs", qg, k.float())
    s = s.masked_fill(dead[:, None, None, :], float("-inf"))
    top = s.amax(-1, keepdim=True)
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    e = torch.exp(s - top)
    z = e.sum(-1, keepdim=True)
    p = e / torch.where(z == 0, torch.ones_like(z), z)
    o = torch.einsum("bngs,bsnd->bngd", p, v.float())
    return o.reshape(b, n_q, hd).to(q.dtype)


def demo():
    torch.manual_seed(0)
    pool = PagePool(16, 4, 2, 8)
    for rid, n in (("a", 9), ("b", 3), ("c", 4)):
        for _ in range(n):
            pool.append(rid, torch.randn(2, 8), torch.randn(2, 8))
    pool.release("b")
    for _ in range(5):
        pool.append("d", torch.randn(2, 8), torch.randn(2, 8))
    table, lens = pool.tables(["a", "c", "d"])
    print(paged_decode(torch.randn(3, 6, 8), pool.k, pool.v, table, lens).shape)


if __name__ == "__main__":
    demo()
