"""Light-curve classifier, forward pass only (survey broker node, no torch there).

One attention layer in which the epochs of a star attend to each other, in the
standard scaled dot-product manner (weights of an epoch over all epochs are
positive and sum to one), then mean over epochs and a linear read-out over the
variability classes.  Missing epochs (`observed == False`) are dropped first.
"""
import numpy as np

CLASSES = ("RRLyr", "Ceph", "EB", "LPV", "const")


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    sd = np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mu) / sd * g + b


def epoch_attention(x, w):
    """x (epochs, dim) -> (epochs, dim)"""
    n_heads = w["n_heads"]
    n, dim = x.shape
    d = dim // n_heads
    out = np.empty_like(x)
    for h in range(n_heads):
        cols = slice(h * d, (h + 1) * d)
        q = x @ w["q"][:, cols]
        k = x @ w["k"][:, cols]
        v = x @ w["v"][:, cols]
        att = (q @ k.T) / np.sqrt(d)
        out[:, cols] = att @ v
    return out @ w["o"]


def classify(magnitudes, errors, phases, observed, w):
    feats = np.stack([magnitudes, np.log(errors), np.sin(2 * np.pi * phases), np.cos(2 * np.pi * phases)], axis=-1)
    x = feats[observed] @ w["embed"]
    x = x + epoch_attention(layer_norm(x, w["g"], w["b"]), w)
    return x.mean(0) @ w["head"]


def init(dim=12, n_heads=3, seed=0):
    rng = np.random.default_rng(seed)
    m = lambda *s: rng.normal(size=s) / np.sqrt(s[0])
    return dict(n_heads=n_heads, embed=m(4, dim), q=m(dim, dim), k=m(dim, dim), v=m(dim, dim), o=m(dim, dim),
                g=np.ones(dim), b=np.zeros(dim), head=m(dim, len(CLASSES)))
