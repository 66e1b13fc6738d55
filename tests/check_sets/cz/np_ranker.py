import numpy as np


def normalise(a):
    b = a.reshape(len(a), -1)
    b = np.exp(b - b.max(axis=1, keepdims=True))
    return (b / b.sum(axis=1, keepdims=True)).reshape(a.shape)


def similarity(x, y):
    return np.einsum("nid,njd->nij", x, y) / np.sqrt(x.shape[-1])


def rank_features(wanted, offered, detail, shown):
    """wanted (n, T, d), offered (n, S, d), detail (n, S, e).

    shown (n, S): 1 for products on sale, 0 for hidden ones that must not count (at
    least one is on sale). -> (n, T, e)
    """
    s = similarity(wanted, offered)
    s = s * shown[:, None, :]
    return np.einsum("nij,nje->nie", normalise(s), detail)
