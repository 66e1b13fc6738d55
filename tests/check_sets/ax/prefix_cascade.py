"""Shared prefix decoding ("cascade") for the reference backend.

Many requests start with the same system prompt.  Its keys and values are stored once:
    1. all queries against the shared prefix,
    2. each query against its own suffix,
    3. the two partial results are merged with their log-sum-exp.

Partial results follow the GPU kernels: the scores are multiplied by log2(e) so that
exp2 can be used, and ``lse`` is the log2 of the sum.
Shapes: q [n, heads, d]; k, v [tokens, heads, d].
"""
import numpy as np

LOG2E = 1.4426950408889634


class Partial:
    """output normalised over the part, and lse (base 2) of the part"""

    __slots__ = ("out", "lse")

    def __init__(self, out, lse):
        self.out, self.lse = out, lse


def partial_attention(q, k, v, sm_scale):
    n, h, d = q.shape
    if len(k) == 0:
        return Partial(np.zeros((n, h, d), np.float32), np.full((n, h), -np.inf, np.float32))
    s = np.einsum("nhd,thd->nht", q, k).astype(np.float32) * np.float32(sm_scale * LOG2E)
    m = s.max(axis=-1)
    p = np.exp2(s - m[..., None])
    total = p.sum(axis=-1)
    out = np.einsum("nht,thd->nhd", p, v) / total[..., None]
    return Partial(out, m + np.log2(total))


def merge(a: Partial, b: Partial) -> Partial:
    """attention over the union of the two parts"""
    top = np.maximum(a.lse, b.lse)
    top = np.where(np.isfinite(top), top, 0.0)
    wa, wb = np.exp(a.lse - top), np.exp(b.lse - top)
    den = wa + wb
    safe = np.where(den > 0, den, 1.0)
    out = (a.out * wa[..., None] + b.out * wb[..., None]) / safe[..., None]
    with np.errstate(divide="ignore"):
        return Partial(out, top + np.log(den))


class CascadeStore:
    """One shared prefix, any number of requests behind it."""

    def __init__(self, heads, head_dim, sm_scale=None):
        self.heads, self.d = heads, head_dim
        self.sm_scale = head_dim ** -0.5 if sm_scale is None else sm_scale
        empty = np.zeros((0, heads, head_dim), np.float32)
        self.prefix_k, self.prefix_v = empty, empty.copy()
        self.suffix = {}

    def set_prefix(self, k, v):
        if self.suffix:
            raise RuntimeError("requests are running on the old prefix")
        self.prefix_k, self.prefix_v = np.asarray(k, np.float32), np.asarray(v, np.float32)

    def add(self, request_id):
        if request_id in self.suffix:
            raise KeyError(f"{request_id} exists")
        self.suffix[request_id] = ([], [])

    def remove(self, request_id):
        del self.suffix[request_id]

    def write(self, request_id, k, v):
        ks, vs = self.suffix[request_id]
        ks.append(np.asarray(k, np.float32))
        vs.append(np.asarray(v, np.float32))

    def attend(self, request_ids, q):
        """q [len(request_ids), heads, d] -> same shape.

        The result equals plain softmax attention over prefix + own suffix.
        """
        q = np.asarray(q, np.float32)
        shared = partial_attention(q, self.prefix_k, self.prefix_v, self.sm_scale)
        rows, lses = [], []
        for i, rid in enumerate(request_ids):
            ks, vs = self.suffix[rid]
            k = np.stack(ks) if ks else self.prefix_k[:0]
            v = np.stack(vs) if vs else self.prefix_v[:0]
            own = partial_attention(q[i:i + 1], k, v, self.sm_scale)
            rows.append(own.out)
            lses.append(own.lse)
        own = Partial(np.concatenate(rows), np.concatenate(lses))
        return merge(shared, own).out


def simulate(n_requests=3, heads=2, d=8, prefix=12, steps=4, seed=0):
    rng = np.random.default_rng(seed)
    store = CascadeStore(heads, d)
    store.set_prefix(*rng.standard_normal((2, prefix, heads, d)))
    ids = [f"req-{i}" for i in range(n_requests)]
    for r in ids:
        store.add(r)
    out = None
    for _ in range(steps):
        for r in ids:
            store.write(r, *rng.standard_normal((2, heads, d)))
        out = store.attend(ids, rng.standard_normal((n_requests, heads, d)))
    return out
