"""Luong attention ("general" score, Luong et al. 2015) for a numpy RNN decoder.

Equations of the paper that this file follows:
    score(h_t, hs) = h_t^T W_a hs
    a_t  = softmax over the source positions of ONE sentence
    c_t  = sum_s a_t(s) hs
    h~_t = tanh(W_c [c_t ; h_t])        <- goes to the output layer and is fed back

Shapes: hs (B, S, H), embedded inputs xs (T, B, X). All sentences of a batch have length S.
"""
import numpy as np


def make_params(X, H, V, seed=0):
    r = np.random.default_rng(seed)
    g = lambda *s: r.normal(size=s) / np.sqrt(s[0])
    return dict(Wx=g(X, H), Wf=g(H, H), Wh=g(H, H), Wa=g(H, H), Wc=g(2 * H, H), Wo=g(H, V))


def attention(h, hs, Wa):
    """h (B, H), hs (B, S, H) -> context (B, H), weights (B, S)"""
    score = np.einsum("bh,hg,bsg->bs", h, Wa, hs)
    e = np.exp(score - score.max(axis=1, keepdims=True))
    a = e / e.sum()
    return np.einsum("bs,bsh->bh", a, hs), a


def decode(params, xs, hs):
    """returns logits (T, B, V) and weights (T, B, S)"""
    p = params
    B, S, H = hs.shape
    h = hs[:, -1]
    feed = np.zeros((B, H))
    logits, weights = [], []
    for x in xs:
        h = np.tanh(x @ p["Wx"] + feed @ p["Wf"] + h @ p["Wh"])
        c, a = attention(h, hs, p["Wa"])
        feed = np.concatenate([c, h], axis=-1) @ p["Wc"]
        logits.append(feed @ p["Wo"])
        weights.append(a)
    return np.stack(logits), np.stack(weights)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    P = make_params(5, 8, 11)
    y, w = decode(P, rng.normal(size=(3, 2, 5)), rng.normal(size=(2, 6, 8)))
    print(y.shape, w.shape)
