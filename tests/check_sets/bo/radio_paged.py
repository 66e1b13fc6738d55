"""community-radio caption server: decode step over a paged KV cache.

pages:  k_pool, v_pool  [n_pages, page, n_kv, d]
table:  [n_seq, max_pages] int, page ids in order (unused entries are 0)
length: [n_seq] tokens already stored for each sequence (>= 1)
"""
import torch

PAGE = 4


class PagePool:
    def __init__(self, n_pages, n_kv, d, page=PAGE, dtype=torch.float32):
        self.page = page
        self.k = torch.zeros(n_pages, page, n_kv, d, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.free = list(range(n_pages - 1, 0, -1))   # page 0 is the null page
        self.pages = {}
        self.len = {}

    def open(self, sid):
        self.pages[sid], self.len[sid] = [], 0

    def append(self, sid, k, v):
        """k, v: [n_kv, d] of one token"""
        n = self.len[sid]
        if n % self.page == 0:
            if not self.free:
                raise MemoryError("pool exhausted")
            self.pages[sid].append(self.free.pop())
        p = self.pages[sid][n // self.page]
        self.k[p, n % self.page] = k
        self.v[p, n % self.page] = v
        self.len[sid] = n + 1

    def close(self, sid):
        self.free.extend(self.pages.pop(sid))
        del self.len[sid]

    def batch(self, sids):
        width = max(len(self.pages[s]) for s in sids)
        table = torch.zeros(len(sids), width, dtype=torch.long)
        for r, s in enumerate(sids):
            table[r, : len(self.pages[s])] = torch.tensor(self.pages[s])
        return table, torch.tensor([self.len[s] for s in sids])


def paged_decode(q, k_pool, v_pool, table, length, scale=None):
    """One query token per sequence. The query is the newest token and its own
    key is already stored, so it may look at all `length` tokens.

    q: [n_seq, n_q, d], n_q a multiple of n_kv, neighbouring query heads share
    a kv head. Returns [n_seq, n_q, d].
    """
    n_seq, n_q, d = q.shape
    _, page, n_kv, _ = k_pool.shape
    scale = d ** -0.5 if scale is None else scale
    k = k_pool[table].reshape(n_seq, -1, n_kv, d)
    v = v_pool[table].reshape(n_seq, -1, n_kv, d)
    g = q.reshape(n_seq, n_kv, n_q // n_kv, d)
    s = torch.einsum("nkgd,ntkd->nkgt", g.float(), k.float()) * scale
    live = torch.arange(k.shape[1], device=q.device)[None] < length[:, None]
    s = s.masked_fill(~live[:, None, None], float("-inf"))
    p = torch.softmax(s, -1)
    # stale tokens of recycled pages are finite but must not weigh in
    v = v.float().masked_fill(~live[:, :, None, None], 0.0)
    return torch.einsum("nkgt,ntkd->nkgd", p, v).reshape(n_seq, n_q, d).to(q.dtype)


def main():
    torch.manual_seed(1)
    pool = PagePool(16, 2, 8)
    for s, n in (("fm1", 6), ("fm2", 3)):
        pool.open(s)
        for _ in range(n):
            pool.append(s, torch.randn(2, 8), torch.randn(2, 8))
    table, length = pool.batch(["fm1", "fm2"])
    print(paged_decode(torch.randn(2, 4, 8), pool.k, pool.v, table, length).shape)


if __name__ == "__main__":
    main()
