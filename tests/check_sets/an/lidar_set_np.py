"""Inference of the LiDAR cluster classifier on the truck (no torch there)."""
import numpy as np


def relu(x):
    return np.maximum(x, 0)


def dense(x, p):
    return x @ p["W"] + p["b"]


def farthest_points(xyz, n):
    """indices of n points, greedy farthest point sampling"""
    pick = [0]
    dist = np.full(len(xyz), np.inf)
    while len(pick) < n:
        dist = np.minimum(dist, ((xyz - xyz[pick[-1]]) ** 2).sum(-1))
        pick.append(int(dist.argmax()))
    return np.array(pick)


def point_attention(feats, params, n_heads, n_points=None):
    """Scaled dot product self attention over an unordered set of points.

    feats    : float (batch, P, C)
    n_points : int (batch,), points from this index on are filler
    params   : {"q": {"W", "b"}, "k": ..., "v": ..., "o": ...}
    """
    B, P, C = feats.shape
    q, k, v = (dense(feats, params[n]).reshape(B, P, n_heads, -1).swapaxes(1, 2) for n in "qkv")
    logits = q @ k.swapaxes(-1, -2)
    logits = logits / np.sqrt(k.shape[-2])
    if n_points is not None:
        filler = np.arange(P) >= np.asarray(n_points)[:, None]
        logits = np.where(filler[:, None, None], -np.inf, logits)
    logits -= logits.max(axis=-1, keepdims=True)
    w = np.exp(logits)
    w /= w.sum(axis=-1, keepdims=True)
    y = (w @ v).swapaxes(1, 2).reshape(B, P, -1)
    return dense(y, params["o"])


def masked_max(x, n_points):
    if n_points is None:
        return x.max(1)
    real = np.arange(x.shape[1]) < np.asarray(n_points)[:, None]
    return np.where(real[..., None], x, -np.inf).max(1)


def classify(xyz, weights, cfg, n_points=None):
    """xyz (batch, P, 3) -> class logits"""
    h = relu(dense(xyz, weights["stem"]))
    for blk in weights["blocks"]:
        h = h + point_attention(h, blk["attn"], cfg["heads"], n_points)
        h = h + dense(relu(dense(h, blk["fc1"])), blk["fc2"])
    return dense(masked_max(h, n_points), weights["head"])


def random_weights(rng, c, n_blocks, n_cls):
    def lin(a, b):
        return {"W": rng.normal(size=(a, b)) / np.sqrt(a), "b": rng.normal(size=b) * 0.01}

    blocks = [{"attn": {n: lin(c, c) for n in "qkvo"}, "fc1": lin(c, 2 * c), "fc2": lin(2 * c, c)}
              for _ in range(n_blocks)]
    return {"stem": lin(3, c), "blocks": blocks, "head": lin(c, n_cls)}
