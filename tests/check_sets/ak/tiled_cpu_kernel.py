"""CPU kernel in tiles for the numpy backend: the score matrix never exists as a whole.

Follows the loop order of the accelerator kernel: the outer loop walks over tiles of keys (they
stay in fast memory), the inner loop over tiles of queries; running maxima, sums and the output
(not yet divided) live in main memory. A pool of scratch arrays saves allocations.
"""
import numpy as np


class Scratch:
    def __init__(self):
        self.pool = {}

    def get(self, name, shape, dtype, fill):
        key = (name, shape, np.dtype(dtype).str)
        if key not in self.pool:
            self.pool[key] = np.empty(shape, dtype)
        self.pool[key][...] = fill
        return self.pool[key]


_SCRATCH = Scratch()
NEG = np.float32(-3.0e38)


def tiles(n, size):
    for a in range(0, n, size):
        yield a, min(a + size, n)


def tiled_attention(q, k, v, lengths=None, causal=False, tile_q=32, tile_k=32, scale=None):
    """softmax(q k^T * scale) v

    q [B, H, M, d], k and v [B, H, N, d]; lengths [B] = number of valid keys of each sample;
    causal aligns the last query with the last key. Default scale 1 / sqrt(d).
    """
    B, H, M, d = q.shape
    N = k.shape[2]
    assert v.shape[2] == N
    scale = np.float32(d ** -0.5 if scale is None else scale)
    run_max = _SCRATCH.get("m", (B, H, M), np.float32, NEG)
    run_sum = _SCRATCH.get("l", (B, H, M), np.float32, 0)
    acc = np.zeros((B, H, M, d), np.float32)

    for k0, k1 in tiles(N, tile_k):
        kt = k[:, :, k0:k1].astype(np.float32)
        vt = v[:, :, k0:k1].astype(np.float32)
        col = np.arange(k0, k1)
        for q0, q1 in tiles(M, tile_q):
            if causal and k0 > q1 - 1 + N - M:
                continue                                   # tile lies above the diagonal
            s = np.matmul(q[:, :, q0:q1].astype(np.float32) * scale, kt.swapaxes(-1, -2))
            see = np.ones((B, 1, q1 - q0, k1 - k0), bool)
            if lengths is not None:
                see &= (col < np.asarray(lengths)[:, None])[:, None, None, :]
            if causal:
                see &= col[None, :] <= np.arange(q0, q1)[:, None] + (N - M)
            s = np.where(see, s, NEG)

            m_old = run_max[:, :, q0:q1]
            m_new = np.maximum(m_old, s.max(-1))
            p = np.where(see, np.exp(s - m_new[..., None]), 0)
            fix = np.exp(m_old - m_new)
            run_sum[:, :, q0:q1] = run_sum[:, :, q0:q1] * fix + p.sum(-1)
            acc[:, :, q0:q1] += np.matmul(p, vt)
            run_max[:, :, q0:q1] = m_new

    total = np.where(run_sum > 0, run_sum, 1)[..., None]
    return (acc / total).astype(q.dtype)


def auto_tile(d, cache_bytes=32 * 1024):
    """Largest power of two such that a tile of q, k, v and of the scores fits."""
    t = 16
    while 4 * (3 * (2 * t) * d + (2 * t) ** 2) <= cache_bytes:
        t *= 2
    return t


class TiledSelfAttention:
    """weights: {'in': [e, 3e], 'in_b': [3e], 'out': [e, e], 'out_b': [e]}; q | k | v in the columns."""

    def __init__(self, weights, heads, causal=True):
        self.w, self.heads, self.causal = weights, heads, causal

    def __call__(self, x, lengths=None):
        B, L, e = x.shape
        d = e // self.heads
        y = (x @ self.w["in"] + self.w["in_b"]).reshape(B, L, 3, self.heads, d)
        q, k, v = y.transpose(2, 0, 3, 1, 4)
        t = auto_tile(d)
        o = tiled_attention(q, k, v, lengths, self.causal, t, t)
        return o.transpose(0, 2, 1, 3).reshape(B, L, e) @ self.w["out"] + self.w["out_b"]


if __name__ == "__main__":
    g = np.random.default_rng(0)
    w = {"in": g.normal(size=(32, 96)), "in_b": np.zeros(96), "out": g.normal(size=(32, 32)), "out_b": np.zeros(32)}
    print(TiledSelfAttention(w, 4)(g.normal(size=(2, 100, 32)).astype(np.float32)).shape)
