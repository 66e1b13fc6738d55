"""Playlist continuation, inference only, weights exported from the training box as .npz"""
import numpy as np

HEADS = 3


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def softmax(x):
    z = np.exp(x - x.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def playlist_attention(w, songs, playable, heads=HEADS):
    """Bidirectional multi-head scaled dot-product attention.

    w: {"q","k","v","o"} each (c, c)
    songs: (b, n, c)
    playable: (b, n), 1 = song is licensed in this country. Other songs are
              treated as if they were not in the list; the weights over the
              playable ones add up to one.
    """
    b, n, c = songs.shape
    hd = c // heads

    def split(x):
        return x.reshape(b, n, heads, hd).transpose(0, 2, 1, 3)

    q, k, v = split(songs @ w["q"]), split(songs @ w["k"]), split(songs @ w["v"])
    scores = q @ k.transpose(0, 1, 3, 2)
    scores = scores / np.sqrt(k.shape[2])
    probs = softmax(scores)
    probs = probs * playable[:, None, None, :]
    mixed = (probs @ v).transpose(0, 2, 1, 3).reshape(b, n, c)
    return mixed @ w["o"]


def block(params, x, playable):
    h = layer_norm(x, params["g1"], params["b1"])
    x = x + playlist_attention(params, h, playable)
    h = layer_norm(x, params["g2"], params["b2"])
    return x + np.maximum(h @ params["w1"], 0) @ params["w2"]


def load(path):
    with np.load(path) as z:
        return {k: z[k].astype(np.float64) for k in z.files}


def random_params(c, seed=0):
    g = np.random.default_rng(seed)
    p = {n: g.normal(0, c ** -0.5, (c, c)) for n in "qkvo"}
    p.update(g1=np.ones(c), b1=np.zeros(c), g2=np.ones(c), b2=np.zeros(c),
             w1=g.normal(0, 0.2, (c, 2 * c)), w2=g.normal(0, 0.2, (2 * c, c)))
    return p


def recommend(params, x, playable, catalogue, k=10):
    y = block(params, x, playable)
    taste = (y * playable[..., None]).sum(1) / playable.sum(1, keepdims=True)
    return np.argsort(-(taste @ catalogue.T), axis=1)[:, :k]
