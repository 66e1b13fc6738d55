import numpy as np


def patchify(images, p):
    b, h, w, c = images.shape
    return images.reshape(b, h // p, p, w // p, p, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, (h // p) * (w // p), p * p * c)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def encode_patches(images, params, patch=2, num_heads=2):
    """images (B, H, W, C); params: embed (patch*patch*C, D), q, k, v, o (D, D).  Returns tokens (B, N, D) after one multi-head attention."""
    x = patchify(images, patch) @ params["embed"]
    B, N, D = x.shape
    dh = D // num_heads
    q = (x @ params["q"]).reshape(B, num_heads, N, dh)
    k = (x @ params["k"]).reshape(B, num_heads, N, dh)
    v = (x @ params["v"]).reshape(B, num_heads, N, dh)
    a = softmax(np.matmul(q, k.transpose(0, 1, 3, 2)))
    y = np.matmul(a, v).transpose(0, 2, 1, 3).reshape(B, N, D)
    return x + y @ params["o"]
