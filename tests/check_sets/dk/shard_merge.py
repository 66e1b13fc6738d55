"""Document search over several machines: attention is computed per shard and merged.

Each shard returns its own normalised result and the log-sum-exp of its scores. As the
kernels on the cards use exp2, EVERYTHING here is in base 2: scores are multiplied by
log2(e) once, and the `lse` that travels is log2(sum(2 ** s2)).

    part(q, K, V)   q [H, d], K [n, H, d], V [n, H, m]   -> out [H, m], lse2 [H]
    merge(parts)    list of (out, lse2)                  -> out [H, m]
    answer(q, shards)  shards = list of (K, V); empty shards (n = 0) are allowed,
                    but not all of them
The result equals softmax(q.K^T / sqrt(d)) V over all keys of all shards.
"""
import numpy as np

LOG2E = 1.4426950408889634


def part(q, K, V):
    H, d = q.shape
    if K.shape[0] == 0:
        return np.zeros((H, V.shape[-1])), np.full(H, -np.inf)
    s2 = np.einsum("hd,nhd->hn", q, K) * (LOG2E / np.sqrt(d))
    top = s2.max(axis=1, keepdims=True)
    p = np.exp2(s2 - top)
    z = p.sum(axis=1, keepdims=True)
    out = np.einsum("hn,nhm->hm", p / z, V)
    return out, (top + np.log2(z))[:, 0]


def merge(parts):
    lse = np.stack([l for _, l in parts])                 # [S, H]
    outs = np.stack([o for o, _ in parts])                # [S, H, m]
    w = np.exp2(lse - lse.max(axis=0))
    w = w / w.sum(axis=0)
    return (w[..., None] * outs).sum(axis=0)


def answer(q, shards):
    return merge([part(q, K, V) for K, V in shards])


def split(K, V, sizes):
    """cut [n, ...] arrays into shards of the given sizes (sum = n)"""
    cuts = np.cumsum(sizes)[:-1]
    return list(zip(np.split(K, cuts), np.split(V, cuts)))
