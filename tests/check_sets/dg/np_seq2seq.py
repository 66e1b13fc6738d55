"""Encoder-decoder forward pass by hand (course assignment 3)."""
import numpy as np


def norm_exp(s):
    top = np.max(s, axis=-1, keepdims=True)
    return np.exp(s - top) / np.sum(np.exp(s), axis=-1, keepdims=True)


def rnn(xs, h, Wx, Wh, b):
    hs = []
    for x in xs:
        h = np.tanh(x @ Wx + h @ Wh + b)
        hs.append(h)
    return np.stack(hs), h


def decode(xs, ys, p):
    """xs (S, B, E) source, ys (T, B, E) target inputs -> probabilities (T, B, V).

    At every step the decoder state is compared with all the encoder states (general
    score), the weighted mean of the encoder states joins the state before the output layer.
    """
    B = xs.shape[1]
    enc, h = rnn(xs, np.zeros((B, p["Wh"].shape[0])), p["Wx"], p["Wh"], p["b"])
    enc = enc.transpose(1, 0, 2)
    out = []
    for y in ys:
        h = np.tanh(y @ p["Ux"] + h @ p["Uh"] + p["c"])
        score = np.einsum("bh,hg,bsg->bs", h, p["Wa"], enc)
        a = norm_exp(score)
        ctx = np.einsum("bs,bsh->bh", a, enc)
        z = np.tanh(np.concatenate([ctx, h], axis=1) @ p["Wc"]) @ p["Wv"]
        z = np.exp(z - z.max(axis=1, keepdims=True))
        out.append(z / z.sum(axis=1, keepdims=True))
    return np.stack(out)


def params(E=6, H=10, V=12, seed=0):
    r = np.random.default_rng(seed)
    n = lambda *s: r.normal(0, 0.6, s)
    return dict(Wx=n(E, H), Wh=n(H, H), b=n(H), Ux=n(E, H), Uh=n(H, H), c=n(H),
                Wa=n(H, H), Wc=n(2 * H, H), Wv=n(H, V))
