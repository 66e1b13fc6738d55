"""Homework 3: multi-head attention from scratch. Only numpy allowed."""
import numpy as np


def softmax(z):
    """Softmax over the keys (last axis), numerically stable."""
    z = z - np.max(z, axis=-1, keepdims=True)
    e = np.exp(z)
    return e / np.sum(e, axis=(-2, -1), keepdims=True)


def split_heads(x, h):
    b, n, d = x.shape
    return x.reshape(b, n, h, d // h).transpose(0, 2, 1, 3)


def multi_head_attention(x, Wq, Wk, Wv, Wo, num_heads=2, mask=None):
    """
    x:    (batch, n, d_model)
    W*:   (d_model, d_model)
    mask: (n, n) or (batch, 1, n, n), 1 where attention is allowed, 0 where not
    returns the output (batch, n, d_model) and the attention weights (batch, heads, n, n)
    """
    q, k, v = (split_heads(x @ W, num_heads) for W in (Wq, Wk, Wv))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask == 0, -1e9, scores)
    weights = softmax(scores)
    heads = weights @ v
    b, h, n, d = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(b, n, h * d) @ Wo, weights


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 5, 8))
    Ws = [rng.normal(size=(8, 8)) * 0.3 for _ in range(4)]
    out, w = multi_head_attention(x, *Ws, num_heads=2, mask=np.tril(np.ones((5, 5))))
    print(out.shape, w.shape)
