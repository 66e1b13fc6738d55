"""Linear-attention mixer for gridded wind forecasts, deployed as NumPy on the buoy.

Non-causal linear attention over the patches of the last analysis (after Katharopoulos
et al., 2020): the weight of patch j for patch i is
    phi(q_i) . phi(k_j) / sum_j' phi(q_i) . phi(k_j'),     phi(x) = elu(x) + 1
computed with the associative trick, O(N) in the number of patches. Patches over land
(sea == False) are left out as keys. The weights of a row sum to one.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def layer_norm(x, g, b):
    x = x - x.mean(-1, keepdims=True)
    return g * x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) + b


def linear_attention(q, k, v, sea=None, eps=1e-6):
    """q, k, v (N, H, D), sea (N,) bool or None -> (N, H, D)"""
    fq, fk = phi(q), phi(k)
    if sea is not None:
        fk = fk * sea[:, None, None]
        k = k * sea[:, None, None]
    kv = np.einsum("nhd,nhe->hde", fk, v)
    z = k.sum(axis=0)
    num = np.einsum("nhd,hde->nhe", fq, kv)
    den = np.einsum("nhd,hd->nh", fq, z)
    return num / (den[..., None] + eps)


class MixerBlock:
    """Weights: a dict of arrays saved by the training job (float32)."""

    def __init__(self, weights, heads):
        self.w = weights
        self.heads = heads

    def forward(self, x, sea=None):
        w = self.w
        n, c = x.shape
        h = layer_norm(x, w["ln1.g"], w["ln1.b"])
        q, k, v = ((h @ w[s]).reshape(n, self.heads, -1) for s in ("wq", "wk", "wv"))
        x = x + linear_attention(q, k, v, sea).reshape(n, c) @ w["wo"]
        h = layer_norm(x, w["ln2.g"], w["ln2.b"])
        return x + np.maximum(h @ w["w1"], 0) @ w["w2"]


class Forecaster:
    def __init__(self, blocks, head):
        self.blocks = blocks
        self.head = head

    def __call__(self, patches, sea=None):
        x = patches
        for blk in self.blocks:
            x = blk.forward(x, sea)
        return x @ self.head


def fake_weights(c, rng):
    m = lambda i, o: rng.normal(0, i ** -0.5, (i, o))
    return {"ln1.g": np.ones(c), "ln1.b": np.zeros(c), "ln2.g": np.ones(c), "ln2.b": np.zeros(c),
            "wq": m(c, c), "wk": m(c, c), "wv": m(c, c), "wo": m(c, c), "w1": m(c, 2 * c), "w2": m(2 * c, c)}


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    net = Forecaster([MixerBlock(fake_weights(16, rng), 4) for _ in range(2)], rng.normal(size=(16, 2)))
    print(net(rng.normal(size=(50, 16)), rng.random(50) > 0.2).shape)
