"""Runs a timm ViT checkpoint (converted to .npz) without torch: defect classifier on the line PC."""
import math
import numpy as np


def linear(w, name, x):
    """timm keeps (out, in)"""
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def layernorm(w, name, x, eps=1e-6):
    m = x.mean(-1, keepdims=True)
    s = np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - m) / s * w[name + ".weight"] + w[name + ".bias"]


_erf = np.vectorize(math.erf, otypes=[float])


def gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attn(w, i, x, heads):
    """blocks.i.attn. The rows of attn.qkv.weight are those of timm: first q of all
    heads, then k of all heads, then v of all heads."""
    B, N, C = x.shape
    d = C // heads
    qkv = linear(w, f"blocks.{i}.attn.qkv", x)
    qkv = qkv.reshape(B, N, heads, 3, d).transpose(3, 0, 2, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    a = softmax(np.matmul(q, k.transpose(0, 1, 3, 2)) * d ** -0.5)
    y = np.matmul(a, v).transpose(0, 2, 1, 3).reshape(B, N, C)
    return linear(w, f"blocks.{i}.attn.proj", y)


def block(w, i, x, heads):
    x = x + attn(w, i, layernorm(w, f"blocks.{i}.norm1", x), heads)
    h = gelu(linear(w, f"blocks.{i}.mlp.fc1", layernorm(w, f"blocks.{i}.norm2", x)))
    return x + linear(w, f"blocks.{i}.mlp.fc2", h)


def patches(img, p):
    """[B, 3, H, W] -> [B, n, 3*p*p], order of a conv weight flattened (c, y, x)"""
    B, C, H, W = img.shape
    x = img.reshape(B, C, H // p, p, W // p, p).transpose(0, 2, 4, 1, 3, 5)
    return x.reshape(B, (H // p) * (W // p), C * p * p)


class ViT:
    def __init__(self, npz, heads, patch):
        self.w = dict(npz)
        self.heads, self.patch = heads, patch
        self.depth = 1 + max(int(k.split(".")[1]) for k in self.w if k.startswith("blocks."))

    def __call__(self, img):
        w = self.w
        pw = w["patch_embed.proj.weight"]
        x = patches(img, self.patch) @ pw.reshape(pw.shape[0], -1).T + w["patch_embed.proj.bias"]
        cls = np.broadcast_to(w["cls_token"], (len(x), 1, x.shape[-1]))
        x = np.concatenate([cls, x], 1) + w["pos_embed"]
        for i in range(self.depth):
            x = block(w, i, x, self.heads)
        return linear(w, "head", layernorm(w, "norm", x)[:, 0])
