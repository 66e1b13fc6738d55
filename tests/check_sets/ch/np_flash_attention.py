"""The online softmax of FlashAttention, block by block, in numpy.

Exact attention without ever storing the (n, n) matrix of scores.
"""
import numpy as np


def flash_attention(q, k, v, block_size=4):
    """softmax(q k^T / sqrt(d)) v

    q : (batch, n, d)
    k : (batch, m, d)
    v : (batch, m, d)
    returns (batch, n, d)
    """
    b, n, d = q.shape
    m = k.shape[1]
    scale = 1.0 / np.sqrt(d)

    acc = np.zeros((b, n, v.shape[-1]))
    row_max = np.full((b, n, 1), -np.inf)
    row_sum = np.zeros((b, n, 1))

    for start in range(0, m, block_size):
        kj = k[:, start:start + block_size]
        vj = v[:, start:start + block_size]
        s = scale * np.einsum("bnd,bmd->bnm", q, kj)

        new_max = np.maximum(row_max, s.max(axis=-1, keepdims=True))
        alpha = np.exp(row_max - new_max)
        p = np.exp(s - new_max)

        row_sum = alpha * row_sum + p.sum(axis=-1, keepdims=True)
        acc = acc + p @ vj
        row_max = new_max

    return acc / row_sum


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 4, 8))
    kv = rng.standard_normal((1, 40, 8))
    print(flash_attention(q, kv, kv).shape)
