import numpy as np


def sigmoid(a):
    return 0.5 * (1.0 + np.tanh(0.5 * a))


def init(rng, n_x, n_h, n_a):
    def m(*s):
        return rng.normal(0, 0.3, s)
    return dict(W=m(n_h, n_a), U=m(n_h, n_a), v=m(n_a),
                Wz=m(n_x + 2 * n_h, n_h), Wr=m(n_x + 2 * n_h, n_h), Wn=m(n_x + 2 * n_h, n_h))


def additive(p, s, H, lens):
    """s (B, n_h) decoder state, H (B, S, n_h) annotations, lens (B,) >= 1 -> context, weights"""
    e = np.tanh((s @ p["W"])[:, None] + H @ p["U"]) @ p["v"]
    pad = np.arange(H.shape[1]) >= np.asarray(lens)[:, None]
    e = np.ma.masked_array(e, pad)
    a = np.ma.exp(e - e.max(1, keepdims=True)).filled(0.0)
    a = a / a.sum(1, keepdims=True)
    return np.einsum("bs,bsh->bh", a, H), a


def decoder_step(p, x, s, H, lens):
    """GRU step fed with the context; returns the new state and the alignment."""
    c, a = additive(p, s, H, lens)
    xsc = np.concatenate([x, s, c], 1)
    z, r = sigmoid(xsc @ p["Wz"]), sigmoid(xsc @ p["Wr"])
    n = np.tanh(np.concatenate([x, r * s, c], 1) @ p["Wn"])
    return (1 - z) * n + z * s, a
