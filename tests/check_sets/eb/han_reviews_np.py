"""Hierarchical attention network for Yelp reviews (Yang et al. 2016), NumPy forward pass.

word level:      u_w = tanh(W h_w + b),  alpha = softmax_w(u_w . c_w),  sentence = sum alpha h_w
sentence level:  the same once more with its own W, b, c.

Padding words and padding sentences take no part. An empty (padding) sentence is represented by
a zero vector; its word weights are all zero.
"""
import numpy as np


def _att_pool(h, real, W, b, c):
    """h (..., L, D), real (..., L) bool, W (D, A), b (A,), c (A,) -> (..., D), (..., L)"""
    u = np.tanh(h @ W + b)
    s = np.where(real, u @ c, -np.inf)
    m = s.max(axis=-1, keepdims=True)
    m = np.where(np.isfinite(m), m, 0.0)
    e = np.exp(s - m)
    z = e.sum(axis=-1, keepdims=True)
    a = e / np.where(z == 0, 1.0, z)
    return np.einsum("...l,...ld->...d", a, h), a


def review_vector(h, n_words, word, sent, squash):
    """
    h        (B, S, T, D)  word states, already encoded
    n_words  (B, S) int    number of words of each sentence, 0 = padding sentence
    word     dict W, b, c  word-level parameters
    sent     dict W, b, c  sentence-level parameters
    squash   (D, D)        a stand-in for the sentence encoder:  tanh(sentence @ squash)

    Returns the review vector (B, D), word weights (B, S, T) and sentence weights (B, S).
    A review without any sentence gives a zero vector.
    """
    T = h.shape[2]
    w_real = np.arange(T) < n_words[..., None]
    sv, wa = _att_pool(h, w_real, word["W"], word["b"], word["c"])
    sv = np.tanh(sv @ squash)
    rv, sa = _att_pool(sv, n_words > 0, sent["W"], sent["b"], sent["c"])
    return rv, wa, sa
