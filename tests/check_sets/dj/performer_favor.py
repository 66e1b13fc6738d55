"""FAVOR+ from "Rethinking Attention with Performers" (Choromanski et al., 2021).

Bidirectional variant with positive random features,

    phi(x) = exp(W x - |x|^2 / 2) / sqrt(m),     W: m blocks of orthogonal rows

so that E[phi(q) . phi(k)] = exp(q . k). With q and k both multiplied by d^(-1/4)
this is the softmax kernel exp(q . k / sqrt(d)), and attention becomes

    out_i = phi(q_i)^T (sum_j phi(k_j) v_j^T) / phi(q_i)^T sum_j phi(k_j)
"""
import numpy as np


def orthogonal_gaussian(m, d, rng):
    """(m, d), rows orthogonal in blocks of d, with the norms of Gaussian vectors."""
    blocks = []
    for _ in range(-(-m // d)):
        qm, r = np.linalg.qr(rng.standard_normal((d, d)))
        blocks.append((qm * np.sign(np.diag(r))).T)      # the signs make it Haar uniform
    W = np.concatenate(blocks)[:m]
    return W * np.linalg.norm(rng.standard_normal((m, d)), axis=1, keepdims=True)


def features(x, W, is_query):
    """x (..., L, d) -> (..., L, m).

    A constant may be taken out of the exponent wherever it cancels in the fraction:
    one per row for queries, one for *all* rows together for keys.
    """
    h = x @ W.T
    axes = -1 if is_query else (-2, -1)
    h_max = h.max(axis=axes, keepdims=True)
    sq = 0.5 * (x ** 2).sum(-1, keepdims=True)
    return np.exp(h - sq - h_max) / np.sqrt(W.shape[0])


def favor(q, k, v, W, real=None):
    """q (B, H, N, d), k (B, H, M, d), v (B, H, M, e); W (m, d) from orthogonal_gaussian;
    real (B, M) bool, True = key takes part. Returns (B, H, N, e)."""
    c = q.shape[-1] ** -0.25
    fq = features(q * c, W, True)
    fk = features(k * c, W, False)
    if real is not None:
        fk = fk * real[:, None, :, None]      # leaves numerator and denominator alike
    kv = np.einsum("bhmr,bhme->bhre", fk, v)
    norm = np.einsum("bhnr,bhr->bhn", fq, fk.sum(axis=2))
    return np.einsum("bhnr,bhre->bhne", fq, kv) / norm[..., None]
