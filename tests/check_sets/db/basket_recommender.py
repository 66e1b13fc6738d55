import numpy as np


def _softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def kundeninteresse(kandidaten, verlauf, laenge, Wq, Wk, Wv):
    """Interest of customers in candidate items: scaled dot-product attention of every
    candidate over the purchase history.

    kandidaten (B, K, d), verlauf (B, L, d)
    laenge (B,): only the first `laenge` purchases are real (>= 1), the rest is filling;
                 the weights of a candidate are a distribution over the real purchases
    Wq, Wk, Wv (H, d, a)
    returns (B, K, H * a)
    """
    B, K, _ = kandidaten.shape
    echt = np.arange(verlauf.shape[1]) < np.asarray(laenge)[:, None]
    q = np.einsum("bkd,hda->bhka", kandidaten, Wq)
    k = np.einsum("bld,hda->bhla", verlauf, Wk)
    v = np.einsum("bld,hda->bhla", verlauf, Wv)
    gewicht = _softmax(q @ k.swapaxes(-1, -2)) * echt[:, None, None, :]
    return (gewicht @ v).transpose(0, 2, 1, 3).reshape(B, K, -1)
