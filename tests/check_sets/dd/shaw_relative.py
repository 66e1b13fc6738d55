import numpy as np


def relative_attention(x, Wq, Wk, Wv, aK, aV, h):
    """Self-attention with relative position representations (Shaw et al., 2018).

    x  : (n, dx)
    W* : (dx, h * dz)
    aK, aV : (2 * clip + 1, dz), row clip + (j - i) describes key j seen from query i
    returns z : (n, h * dz)
    """
    n = x.shape[0]
    clip = (aK.shape[0] - 1) // 2
    heads = lambda W: (x @ W).reshape(n, h, -1).swapaxes(0, 1)
    q, k, v = heads(Wq), heads(Wk), heads(Wv)
    pos = np.arange(n)
    r = np.clip(pos[None, :] - pos[:, None], -clip, clip) + clip
    e = (q @ k.swapaxes(-1, -2) + np.einsum("hid,ijd->hij", q, aK[r])) / np.sqrt(q.shape[-1])
    e -= e.max(axis=-1, keepdims=True)
    alpha = np.exp(e)
    alpha /= alpha.sum(axis=-1, keepdims=True)
    z = alpha @ v + np.einsum("hij,ijd->hid", alpha, aV[r])
    return z.swapaxes(0, 1).reshape(n, -1)
