import numpy as np


def part(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    z = e.sum(-1, keepdims=True)
    return (e @ v) / z, (top + np.log(z)) * np.log2(np.e)


def two_part_attention(q, k, v):
    """Attention over the first and the second half of the keys, then merged by the log-sum-exp."""
    half = k.shape[-2] // 2
    o1, l1 = part(q, k[..., :half, :], v[..., :half, :])
    o2, l2 = part(q, k[..., half:, :], v[..., half:, :])
    w = 1 / (1 + np.exp(l2 - l1))
    return w * o1 + (1 - w) * o2
