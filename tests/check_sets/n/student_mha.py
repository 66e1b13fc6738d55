import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def mha_forward(x, mask, params, n_heads=2):
    """
    x      : (N, L, D)
    mask   : (N, L) bool, True for the tokens that may be attended to
    params : {"Wq", "Wk", "Wv", "Wo"}, each (D, D)
    """
    N, L, D = x.shape
    d = D // n_heads
    q = (x @ params["Wq"]).reshape(N, n_heads, L, d)
    k = (x @ params["Wk"]).reshape(N, n_heads, L, d)
    v = (x @ params["Wv"]).reshape(N, n_heads, L, d)
    s = q @ k.transpose(0, 1, 3, 2) / d
    s = s + mask[:, None, None, :]
    y = softmax(s) @ v
    return y.transpose(0, 2, 1, 3).reshape(N, L, D) @ params["Wo"]
