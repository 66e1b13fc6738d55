"""Reference (slow) paged decode used in our kernel tests.

Pages live in one pool  k_pool / v_pool : (num_pages, page_size, kv_heads, head_dim).
Every running request owns a list of page ids; the last page may be partly filled.
"""
import torch


class PagePool:
    def __init__(self, num_pages, page_size, kv_heads, head_dim, dtype=torch.float32):
        shp = (num_pages, page_size, kv_heads, head_dim)
        self.page_size = page_size
        self.k = torch.zeros(shp, dtype=dtype)
        self.v = torch.zeros(shp, dtype=dtype)
        self.free = list(range(num_pages - 1, -1, -1))
        self.tables: dict[str, list[int]] = {}
        self.lens: dict[str, int] = {}

    def add_request(self, rid):
        if rid in self.tables:
            raise KeyError(f"request {rid} is already running")
        self.tables[rid], self.lens[rid] = [], 0

    def drop_request(self, rid):
        self.free.extend(reversed(self.tables.pop(rid)))
        del self.lens[rid]

    def append(self, rid, k, v):
        """k, v: (tokens, kv_heads, head_dim)"""
        for kt, vt in zip(k, v):
            n = self.lens[rid]
            if n % self.page_size == 0:
                if not self.free:
                    raise MemoryError("out of pages")
                self.tables[rid].append(self.free.pop())
            page = self.tables[rid][n // self.page_size]
            self.k[page, n % self.page_size] = kt
            self.v[page, n % self.page_size] = vt
            self.lens[rid] = n + 1


def paged_attention(q, pool: PagePool, rids, sm_scale=None):
    """One new token per request.

    q: (len(rids), heads, head_dim); its own k/v must already have been appended.
    Query head h reads kv head h // (heads // kv_heads).
    """
    n, heads, d = q.shape
    hkv = pool.k.shape[2]
    if heads % hkv:
        raise ValueError("heads must be a multiple of kv_heads")
    g = heads // hkv
    sm_scale = d ** -0.5 if sm_scale is None else sm_scale

    most = max(len(pool.tables[r]) for r in rids)
    table = torch.zeros(n, most, dtype=torch.long)
    for row, r in enumerate(rids):
        table[row, : len(pool.tables[r])] = torch.tensor(pool.tables[r])
    lens = torch.tensor([pool.lens[r] for r in rids])

    k = pool.k[table].reshape(n, most * pool.page_size, hkv, d)
    v = pool.v[table].reshape(n, most * pool.page_size, hkv, d)
    qg = q.reshape(n, hkv, g, d)
    logits = torch.einsum("nkgd,ntkd->nkgt", qg.float(), k.float()) * sm_scale
    beyond = torch.arange(k.shape[1])[None] >= lens[:, None]
    logits.masked_fill_(beyond[:, None, None, :], float("-inf"))
    probs = torch.softmax(logits, dim=-1)
    out = torch.einsum("nkgt,ntkd->nkgd", probs, v.float())
    return out.reshape(n, heads, d).to(q.dtype)
