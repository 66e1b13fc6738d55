"""Inference in plain NumPy for a small RNA secondary-structure net (weights from an .npz file).

Every layer is an attention over the nucleotides whose logits get a bias from the base-pair
probability matrix, computed once for a sequence and used by all the layers.
"""
import numpy as np

VOCAB = {c: i for i, c in enumerate("ACGUN")}


def encode(seq):
    return np.array([VOCAB.get(c, 4) for c in seq.upper().replace("T", "U")])


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=-1, keepdims=True)
    return z


def pair_to_bias(bpp, w):
    """bpp (L, L) -> (H, L, L)"""
    feats = np.stack([bpp, np.log(bpp + 1e-6), np.eye(len(bpp))])
    return np.einsum("hf,fij->hij", w, feats)


class PairBiasedAttention:
    """logits[h, i, j] = q[h, i] . k[h, j] / sqrt(d) + bias[h, i, j]

    params: dict with wq, wk, wv, wo of shape (dim, dim); x (L, dim); bias (H, L, L).
    """

    def __init__(self, params, n_heads):
        self.p = params
        self.h = n_heads
        self.d = params["wq"].shape[1] // n_heads

    def heads(self, x, name):
        return (x @ self.p[name]).reshape(len(x), self.h, self.d).transpose(1, 0, 2)

    def __call__(self, x, bias):
        q = self.heads(x, "wq") / np.sqrt(self.d)
        k = self.heads(x, "wk")
        v = self.heads(x, "wv")
        logits = bias
        logits += q @ k.transpose(0, 2, 1)
        out = softmax(logits) @ v
        return out.transpose(1, 0, 2).reshape(len(x), -1) @ self.p["wo"]


class StructureNet:
    def __init__(self, npz, n_layers, n_heads):
        self.npz = npz
        self.layers = []
        for i in range(n_layers):
            params = {n: npz[f"layer{i}.{n}"] for n in ("wq", "wk", "wv", "wo")}
            self.layers.append(PairBiasedAttention(params, n_heads))

    def __call__(self, seq, bpp):
        x = self.npz["emb"][encode(seq)]
        bias = pair_to_bias(bpp, self.npz["pair_w"])
        for i, layer in enumerate(self.layers):
            x = x + layer(layer_norm(x, self.npz[f"layer{i}.g"], self.npz[f"layer{i}.b"]), bias)
        return 1 / (1 + np.exp(-(x @ self.npz["head"])))  # unpaired probability


def random_weights(rng, dim=16, n_layers=2, n_heads=2):
    w = {"emb": rng.normal(size=(5, dim)), "pair_w": rng.normal(size=(n_heads, 3)), "head": rng.normal(size=dim)}
    for i in range(n_layers):
        for n in ("wq", "wk", "wv", "wo"):
            w[f"layer{i}.{n}"] = rng.normal(size=(dim, dim)) / np.sqrt(dim)
        w[f"layer{i}.g"], w[f"layer{i}.b"] = np.ones(dim), np.zeros(dim)
    return w


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    bpp = rng.random((12, 12))
    print(StructureNet(random_weights(rng), 2, 2)("GGGAAACUUCCC", (bpp + bpp.T) / 2).round(3))
