"""notebook cell 7 -- "attention without overflow", numpy only

mha(X, Y, Wq, Wk, Wv, Wo, heads, ignore)

    X       (B, n, D)   who asks
    Y       (B, m, D)   who is asked
    W*      (D, D)
    ignore  (B, m) bool, True = padding in Y, must get no weight

The 1/sqrt(dh) (dh = D // heads) is split in two: queries AND keys are each multiplied by
dh ** -0.25, so that the products stay small.  A sample whose Y is all padding
gives zeros before Wo (nothing to read), not NaN.
"""
import numpy as np


def cut(Z, heads):
    B, n, D = Z.shape
    return Z.reshape(B, n, heads, D // heads).transpose(0, 2, 1, 3)


def glue(Z):
    B, h, n, dh = Z.shape
    return Z.transpose(0, 2, 1, 3).reshape(B, n, h * dh)


def weights_of(score, ignore):
    score = np.where(ignore[:, None, None, :], -np.inf, score)
    top = score.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    num = np.exp(score - top)
    den = num.sum(axis=-1, keepdims=True)
    return num / np.where(den == 0, 1.0, den)


def mha(X, Y, Wq, Wk, Wv, Wo, heads, ignore):
    dh = X.shape[-1] // heads
    quarter = dh ** -0.25
    Q = cut(X @ Wq, heads) * quarter
    K = cut(Y @ Wk, heads) * quarter
    V = cut(Y @ Wv, heads)
    A = weights_of(np.einsum("bhnd,bhmd->bhnm", Q, K), ignore)
    return glue(np.einsum("bhnm,bhmd->bhnd", A, V)) @ Wo
