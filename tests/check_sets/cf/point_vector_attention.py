"""Vector self-attention on point clouds, numpy inference of Point Transformer.

For point i with its K nearest neighbours j (itself included):

    y_i = sum_j softmax_j( gamma(phi(x_i) - psi(x_j) + delta_ij) ) * (alpha(x_j) + delta_ij)

delta_ij = theta(p_i - p_j).  The attention is a *vector*: every channel has its
own weights over the neighbours, so the softmax runs over the neighbour axis of
an (N, K, C) array, and there is no dot product to scale.
"""
import numpy as np


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def mlp(x, w, name):
    return linear(np.maximum(linear(x, w, name + ".0"), 0.0), w, name + ".2")


def nearest(points, k):
    """(N, 3) -> (N, k) indices, nearest first."""
    d2 = ((points[:, None, :] - points[None, :, :]) ** 2).sum(-1)
    return np.argsort(d2, axis=1, kind="stable")[:, :k]


def point_transformer_layer(w, points, feats, k=8):
    """points (N, 3), feats (N, C) -> (N, C)"""
    idx = nearest(points, min(k, len(points)))
    query = linear(feats, w, "phi")
    key = linear(feats, w, "psi")[idx]              # (N, K, C)
    value = linear(feats, w, "alpha")[idx]
    delta = mlp(points[:, None, :] - points[idx], w, "theta")

    logits = mlp(query[:, None, :] - key + delta, w, "gamma")
    logits = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(logits)
    weights /= weights.sum(axis=1, keepdims=True)
    return (weights * (value + delta)).sum(axis=1)


def point_transformer_block(w, points, feats, k=8):
    """Residual bottleneck: linear -> attention -> linear, added to the input."""
    h = linear(feats, w, "in")
    h = np.maximum(point_transformer_layer(w, points, h, k), 0.0)
    return feats + linear(h, w, "out")


def random_weights(channels=16, seed=0):
    rng = np.random.default_rng(seed)
    w = {}

    def add(name, n_in, n_out):
        w[name + ".weight"] = rng.normal(size=(n_out, n_in)) / np.sqrt(n_in)
        w[name + ".bias"] = 0.1 * rng.normal(size=n_out)

    for name in ("phi", "psi", "alpha", "in", "out", "gamma.0", "gamma.2", "theta.2"):
        add(name, channels, channels)
    add("theta.0", 3, channels)
    return w


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    w = random_weights()
    print(point_transformer_block(w, rng.normal(size=(50, 3)), rng.normal(size=(50, 16))).shape)
