"""
Assignment 2: Transformer building blocks in NumPy

Name: ____________    Student id: ____________

You may only use numpy. Every function works on batches:
    x     (N, T, D)
    mask  (N, T) with 1 for words and 0 for <pad>, or None
"""
import numpy as np


def softmax(z, axis=-1):
    z = z - np.max(z, axis=axis, keepdims=True)
    e = np.exp(z)
    return e / np.sum(e, axis=axis, keepdims=True)


def layer_norm(x, gamma, beta, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return gamma * (x - mu) / np.sqrt(var + eps) + beta


def positional_encoding(T, D):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D))"""
    pos = np.arange(T)[:, None]
    i = np.arange(0, D, 2)[None, :]
    ang = pos / np.power(10000.0, i / D)
    pe = np.zeros((T, D))
    pe[:, 0::2] = np.sin(ang)
    pe[:, 1::2] = np.cos(ang)
    return pe


def scaled_dot_product(Q, K, V, mask=None):
    """
    Question 1 (10 points).

        Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

    Q, K, V : (N, H, T, d).  Words must not attend to <pad>.
    Returns the output (N, H, T, d) and the attention weights (N, H, T, T).
    """
    d_k = K.shape[-2]
    scores = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask[:, None, None, :] == 0, 1e-9, scores)
    weights = softmax(scores)
    return weights @ V, weights


def multi_head_attention(x, params, n_heads, mask=None):
    """Question 2 (15 points)."""
    N, T, D = x.shape
    d = D // n_heads

    def project(name):
        y = x @ params["W" + name] + params["b" + name]
        return y.reshape(N, T, n_heads, d).transpose(0, 2, 1, 3)

    out, w = scaled_dot_product(project("q"), project("k"), project("v"), mask)
    out = out.transpose(0, 2, 1, 3).reshape(N, T, D)
    return out @ params["Wo"] + params["bo"], w


def encoder_block(x, params, n_heads, mask=None):
    """Question 3 (10 points). Pre-norm, ReLU feed-forward."""
    h = layer_norm(x, params["g1"], params["s1"])
    x = x + multi_head_attention(h, params, n_heads, mask)[0]
    h = layer_norm(x, params["g2"], params["s2"])
    h = np.maximum(0, h @ params["W1"] + params["b1"])
    return x + h @ params["W2"] + params["b2"]


def init_params(D, hidden, seed=0):
    rng = np.random.RandomState(seed)
    p = {}
    for n in "qkvo":
        p["W" + n] = rng.randn(D, D) / np.sqrt(D)
        p["b" + n] = np.zeros(D)
    p["W1"], p["b1"] = rng.randn(D, hidden) / np.sqrt(D), np.zeros(hidden)
    p["W2"], p["b2"] = rng.randn(hidden, D) / np.sqrt(hidden), np.zeros(D)
    for n in "12":
        p["g" + n], p["s" + n] = np.ones(D), np.zeros(D)
    return p


if __name__ == "__main__":
    x = np.random.RandomState(1).randn(2, 6, 8) + positional_encoding(6, 8)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    print(encoder_block(x, init_params(8, 16), 2, mask).shape)
