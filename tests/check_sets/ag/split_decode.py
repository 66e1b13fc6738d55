"""Split-KV decoding, reference in NumPy for our accelerator kernels.

The key/value sequence is cut into pieces which are handled by different cores; every core
returns its normalised output and the log-sum-exp of its scores, and a second pass merges
them. The kernels use exp2 because the hardware has no exp, with log2(e) folded in the scale.
"""
import numpy as np

LOG2E = 1.4426950408889634


def piece_bounds(length, pieces):
    """near-equal pieces; fewer than asked for when the sequence is short"""
    pieces = max(1, min(pieces, length))
    edges = np.linspace(0, length, pieces + 1).round().astype(int)
    return list(zip(edges[:-1], edges[1:]))


def partial_attention(q, k, v, scale):
    """
    q [H, D], k [S, Hkv, D], v [S, Hkv, D]
    returns out [H, D] (normalised within the piece) and lse [H]
    """
    H, D = q.shape
    Hkv = k.shape[1]
    qg = q.reshape(Hkv, H // Hkv, D)
    s = np.einsum("grd,sgd->grs", qg, k) * (scale * LOG2E)
    m = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - m)
    l = p.sum(axis=-1, keepdims=True)
    out = np.einsum("grs,sgd->grd", p / l, v)
    lse = (m + np.log2(l))[..., 0]
    return out.reshape(H, D), lse.reshape(H)


def merge(outs, lses):
    """outs [P, H, D], lses [P, H]"""
    top = lses.max(axis=0, keepdims=True)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0, keepdims=True)
    return (w[..., None] * outs).sum(axis=0)


def decode(q, k_cache, v_cache, lengths, pieces=4, scale=None):
    """
    q        [B, H, D]          the current token
    k_cache  [B, Smax, Hkv, D]  only the first lengths[b] entries are filled
    v_cache  [B, Smax, Hkv, D]
    Exact attention over the filled entries; query head h reads kv head h // (H // Hkv).
    """
    B, H, D = q.shape
    scale = D ** -0.5 if scale is None else scale
    result = np.zeros_like(q)
    for b in range(B):
        if lengths[b] == 0:
            continue
        outs, lses = [], []
        for lo, hi in piece_bounds(int(lengths[b]), pieces):
            o, e = partial_attention(q[b], k_cache[b, lo:hi], v_cache[b, lo:hi], scale)
            outs.append(o)
            lses.append(e)
        result[b] = merge(np.stack(outs), np.stack(lses))
    return result


class Session:
    """keeps the caches of a batch of conversations"""

    def __init__(self, batch, max_len, n_kv, dim):
        self.k = np.zeros((batch, max_len, n_kv, dim))
        self.v = np.zeros((batch, max_len, n_kv, dim))
        self.lengths = np.zeros(batch, int)

    def push(self, b, k, v):
        n = self.lengths[b]
        if n + len(k) > self.k.shape[1]:
            raise IndexError("conversation is full")
        self.k[b, n:n + len(k)] = k
        self.v[b, n:n + len(v)] = v
        self.lengths[b] += len(k)

    def step(self, q, k, v, pieces=4):
        for b in range(len(q)):
            self.push(b, k[b][None], v[b][None])
        return decode(q, self.k, self.v, self.lengths, pieces)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    s = Session(2, 32, 2, 8)
    s.push(0, rng.normal(size=(11, 2, 8)), rng.normal(size=(11, 2, 8)))
    s.push(1, rng.normal(size=(3, 2, 8)), rng.normal(size=(3, 2, 8)))
    print(s.step(rng.normal(size=(2, 4, 8)), rng.normal(size=(2, 2, 8)), rng.normal(size=(2, 2, 8))).shape)
