"""Run a timm-style ViT from an .npz file, NumPy only (no torch on the device)."""
import math

import numpy as np

_erf = np.vectorize(math.erf)


def linear(x, w, b):
    # weights are stored as in torch: [out, in]
    return x @ w.T + b


def layernorm(x, w, b, eps=1e-6):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * w + b


def attention(x, qkv_w, qkv_b, proj_w, proj_b, num_heads):
    B, N, C = x.shape
    qkv = linear(x, qkv_w, qkv_b).reshape(B, N, 3, num_heads, C // num_heads)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    s = np.matmul(q, np.swapaxes(k, -1, -2)) * (C // num_heads) ** -0.5
    s -= s.max(-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(-1, keepdims=True)
    y = np.matmul(s, v).transpose(0, 2, 1, 3).reshape(B, N, C)
    return linear(y, proj_w, proj_b)


def random_weights(dim=24, depth=2, patch=4, image=16, classes=10, seed=0):
    """A stand-in for np.load("vit_tiny.npz")."""
    rng = np.random.default_rng(seed)
    n = (image // patch) ** 2
    r = lambda *s: rng.normal(0, 0.3, s)
    w = {"patch_embed.proj.weight": r(dim, 3, patch, patch), "patch_embed.proj.bias": r(dim),
         "cls_token": r(1, 1, dim), "pos_embed": r(1, n + 1, dim),
         "norm.weight": np.ones(dim), "norm.bias": np.zeros(dim),
         "head.weight": r(classes, dim), "head.bias": np.zeros(classes)}
    for i in range(depth):
        p = f"blocks.{i}."
        for j in (1, 2):
            w[p + f"norm{j}.weight"], w[p + f"norm{j}.bias"] = np.ones(dim), np.zeros(dim)
        for name, o, c in (("attn.qkv", 3 * dim, dim), ("attn.proj", dim, dim),
                           ("mlp.fc1", 2 * dim, dim), ("mlp.fc2", dim, 2 * dim)):
            w[p + name + ".weight"], w[p + name + ".bias"] = r(o, c), r(o)
    return w


class ViT:
    """images [B, 3, H, W] float -> logits [B, classes]"""

    def __init__(self, weights=None, num_heads=3):
        self.w = weights if weights is not None else random_weights()
        self.num_heads = num_heads
        self.depth = 1 + max(int(k.split(".")[1]) for k in self.w if k.startswith("blocks."))

    def patchify(self, img):
        kernel = self.w["patch_embed.proj.weight"]
        d, c, p, _ = kernel.shape
        B, _, H, W = img.shape
        x = img.reshape(B, c, H // p, p, W // p, p).transpose(0, 2, 4, 1, 3, 5)
        return x.reshape(B, -1, c * p * p) @ kernel.reshape(d, -1).T + self.w["patch_embed.proj.bias"]

    def __call__(self, img):
        w = self.w
        x = self.patchify(img)
        cls = np.repeat(w["cls_token"], len(x), axis=0)
        x = np.concatenate([cls, x], axis=1) + w["pos_embed"]
        for i in range(self.depth):
            g = lambda name: (w[f"blocks.{i}.{name}.weight"], w[f"blocks.{i}.{name}.bias"])
            x = x + attention(layernorm(x, *g("norm1")), *g("attn.qkv"), *g("attn.proj"), self.num_heads)
            h = linear(layernorm(x, *g("norm2")), *g("mlp.fc1"))
            h = 0.5 * h * (1 + _erf(h / math.sqrt(2)))
            x = x + linear(h, *g("mlp.fc2"))
        x = layernorm(x, w["norm.weight"], w["norm.bias"])
        return linear(x[:, 0], w["head.weight"], w["head.bias"])
