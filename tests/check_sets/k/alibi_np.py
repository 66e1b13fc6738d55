import numpy as np


def get_slopes(n_heads):
    def power_of_2(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]

    if (n_heads & (n_heads - 1)) == 0:
        return np.array(power_of_2(n_heads))
    m = 2 ** int(np.floor(np.log2(n_heads)))
    return np.array(power_of_2(m) + power_of_2(2 * m)[0::2][: n_heads - m])


def alibi_attention(q, k, v):
    """Causal attention with linear biases (Press et al. 2022).  q, k, v: (heads, time, dim)."""
    h, t, d = q.shape
    s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(d)
    pos = np.arange(t)
    dist = pos[:, None] - pos[None, :]
    s = s - get_slopes(h)[:, None, None] * dist
    s = np.where(dist >= 0, s, -np.inf)
    s -= s.max(-1, keepdims=True)
    w = np.exp(s)
    w /= w.sum(-1, keepdims=True)
    return np.einsum("hij,hjd->hid", w, v)
