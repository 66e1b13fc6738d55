"""A toy paged KV cache with block tables, to understand what the real engine does.

    pool.k[block, slot, head, dim]     physical storage, shared by all requests
    table[request] = [block, block..]  logical order of the blocks of a request

Attention is single-token decode: the newest token asks, every token of its own
request (itself included) answers.
"""
import math

import numpy as np


class OutOfBlocks(RuntimeError):
    pass


class BlockAllocator:
    def __init__(self, n):
        self.free = list(range(n))[::-1]
        self.refs = [0] * n

    def take(self):
        if not self.free:
            raise OutOfBlocks()
        b = self.free.pop()
        self.refs[b] = 1
        return b

    def share(self, b):
        self.refs[b] += 1

    def drop(self, b):
        self.refs[b] -= 1
        if self.refs[b] == 0:
            self.free.append(b)


class PagedKV:
    def __init__(self, n_blocks=32, block_size=4, kv_heads=2, dim=8):
        self.bs = block_size
        self.k = np.zeros((n_blocks, block_size, kv_heads, dim), np.float32)
        self.v = np.zeros_like(self.k)
        self.alloc = BlockAllocator(n_blocks)
        self.table, self.length = {}, {}

    def add_request(self, rid):
        self.table[rid], self.length[rid] = [], 0

    def fork(self, rid, child):
        """beam search: the child shares full blocks, a half-full one is copied"""
        self.table[child], self.length[child] = [], self.length[rid]
        for n, b in enumerate(self.table[rid]):
            if (n + 1) * self.bs <= self.length[rid]:
                self.alloc.share(b)
                self.table[child].append(b)
            else:
                c = self.alloc.take()
                self.k[c], self.v[c] = self.k[b], self.v[b]
                self.table[child].append(c)

    def finish(self, rid):
        for b in self.table.pop(rid):
            self.alloc.drop(b)
        del self.length[rid]

    def write(self, rid, k, v):
        """k, v [kv_heads, dim] of one new token"""
        n = self.length[rid]
        if n % self.bs == 0:
            self.table[rid].append(self.alloc.take())
        b = self.table[rid][n // self.bs]
        self.k[b, n % self.bs] = k
        self.v[b, n % self.bs] = v
        self.length[rid] = n + 1

    def attend(self, rid, q):
        """q [heads, dim] -> [heads, dim]; head h reads kv head h // (heads // kv_heads)"""
        n = self.length[rid]
        blocks = self.table[rid][: math.ceil(n / self.bs)]
        k = self.k[blocks].reshape(-1, *self.k.shape[2:]).astype(np.float64)
        v = self.v[blocks].reshape(-1, *self.v.shape[2:]).astype(np.float64)
        heads, dim = q.shape
        group = heads // k.shape[1]
        q = q.reshape(-1, group, dim)
        s = np.einsum("cgd,ncd->cgn", q, k) / math.sqrt(dim)
        s -= s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        return np.einsum("cgn,ncd->cgd", p, v).reshape(heads, dim)


def decode_batch(cache, requests, qs, ks, vs):
    """one engine step for a batch of running requests"""
    out = np.empty_like(qs)
    for i, rid in enumerate(requests):
        cache.write(rid, ks[i], vs[i])
        out[i] = cache.attend(rid, qs[i])
    return out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    c = PagedKV()
    for r in "ab":
        c.add_request(r)
    for step in range(10):
        o = decode_batch(c, ["a", "b"], rng.normal(size=(2, 4, 8)), rng.normal(size=(2, 2, 8)), rng.normal(size=(2, 2, 8)))
    c.fork("a", "a2")
    c.finish("b")
    print(o.shape, len(c.alloc.free))
