"""Reformer's LSH attention explained with numpy (single head, one hash round).

Queries and keys are the same vectors (shared QK, keys are normalised).  Tokens are sorted by
bucket (stable, so time order holds inside a bucket), cut in chunks, and a chunk attends to itself
and to the chunk before.  Within that: same bucket only, no future, and oneself only if there
is nobody else.  Row t of the result belongs to token t.
"""
import numpy as np


def hash_vectors(x, n_buckets, rng):
    """angular LSH: argmax([xR ; -xR])"""
    R = rng.normal(size=(x.shape[-1], n_buckets // 2))
    y = x @ R
    return np.argmax(np.concatenate([y, -y], axis=-1), axis=-1)


def look_one_back(c):
    prev = np.concatenate([c[-1:], c[:-1]], axis=0)
    return np.concatenate([prev, c], axis=1)


def lsh_attention(qk, v, buckets, chunk):
    """qk (L, d), v (L, dv), buckets (L,) ints; L divisible by chunk.  Returns (L, dv)"""
    L, d = qk.shape
    order = np.argsort(buckets, kind="stable")
    sqk, sv, sb = qk[order], v[order], buckets[order]

    n = L // chunk
    q = sqk.reshape(n, chunk, d)
    k = q / (np.linalg.norm(q, axis=-1, keepdims=True) + 1e-6)
    t_q = order.reshape(n, chunk)
    b_q = sb.reshape(n, chunk)
    k, vv = look_one_back(k), look_one_back(sv.reshape(n, chunk, -1))
    t_k, b_k = look_one_back(t_q), look_one_back(b_q)

    dots = np.einsum("nid,njd->nij", q, k) / np.sqrt(d)
    banned = (b_q[:, :, None] != b_k[:, None, :]) | (t_q[:, :, None] < t_k[:, None, :])
    dots = np.where(banned, -np.inf, dots)
    dots = np.where(t_q[:, :, None] == t_k[:, None, :], -1e5, dots)
    dots -= dots.max(axis=-1, keepdims=True)
    w = np.exp(dots)
    w /= w.sum(axis=-1, keepdims=True)
    so = np.einsum("nij,njd->nid", w, vv).reshape(L, -1)
    return so[order]


class ReversibleBlock:
    """y1 = x1 + f(x2), y2 = x2 + g(y1)"""

    def __init__(self, f, g):
        self.f, self.g = f, g

    def forward(self, x1, x2):
        y1 = x1 + self.f(x2)
        return y1, x2 + self.g(y1)

    def inverse(self, y1, y2):
        x2 = y2 - self.g(y1)
        return y1 - self.f(x2), x2


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x, Wqk, Wv = rng.normal(size=(32, 8)), rng.normal(size=(8, 8)), rng.normal(size=(8, 8))
    qk = x @ Wqk
    b = hash_vectors(qk, 4, rng)
    blk = ReversibleBlock(lambda z: lsh_attention(z @ Wqk, z @ Wv, b, 8), np.tanh)
    y = blk.forward(x, x)
    print(np.abs(blk.inverse(*y)[0] - x).max())
