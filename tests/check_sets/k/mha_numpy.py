import numpy as np


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    ez = np.exp(z)
    return ez / ez.sum(axis=-1, keepdims=True)


def mha(x, params, num_heads):
    """Multi-head self-attention.

    x: (batch, length, dim); params: dict with 'wq', 'wk', 'wv', 'wo', each (dim, dim).
    """
    B, L, D = x.shape
    dh = D // num_heads

    def split(a):
        return a.reshape(B, num_heads, L, dh)

    q = split(x @ params["wq"])
    k = split(x @ params["wk"])
    v = split(x @ params["wv"])
    w = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(dh))
    y = (w @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return y @ params["wo"]
