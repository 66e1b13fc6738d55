"""Anomaly scores for long account ledgers with random-feature attention.

FAVOR+ (Choromanski et al., 2021), positive features: an unbiased estimate of
softmax attention in linear time,

    exp(q.k) = E_w[ exp(w.q - |q|^2/2) * exp(w.k - |k|^2/2) ],  w ~ N(0, I)

With m features the output approaches softmax(q k^T / sqrt(d)) v as m grows.
"""
import numpy as np


def orthogonal_features(m, d, rng):
    """m x d matrix, blocks of orthogonal rows with the norms of Gaussian vectors."""
    blocks = []
    for _ in range(-(-m // d)):
        q, r = np.linalg.qr(rng.standard_normal((d, d)))
        blocks.append((q * np.sign(np.diag(r))).T)
    w = np.concatenate(blocks)[:m]
    return w * np.linalg.norm(rng.standard_normal((m, d)), axis=1, keepdims=True)


class FavorAttention:
    """Bidirectional. q (B, H, Lq, D), k (B, H, Lk, D), v (B, H, Lk, E).

    live: (B, Lk) bool, False = empty ledger line (not attended); every ledger
    has at least one line.
    """

    def __init__(self, dim, features=256, seed=0):
        self.dim, self.m = dim, features
        self.w = orthogonal_features(features, dim, np.random.default_rng(seed))

    def _query_features(self, q):
        q = q * self.dim ** -0.25
        u = q @ self.w.T - 0.5 * (q * q).sum(-1, keepdims=True)
        # a constant per query cancels in the ratio
        return np.exp(u - u.max(axis=-1, keepdims=True)) / np.sqrt(self.m)

    def _key_features(self, k):
        k = k * self.dim ** -0.25
        u = k @ self.w.T
        # the constant must be common to all keys of a head
        return np.exp(u - u.max(axis=(-2, -1), keepdims=True)) / np.sqrt(self.m)

    def __call__(self, q, k, v, live=None):
        fq, fk = self._query_features(q), self._key_features(k)
        if live is not None:
            fk = fk * live[:, None, :, None]
        kv = np.swapaxes(fk, -1, -2) @ v                     # (B, H, m, E)
        z = fk.sum(axis=-2)                                  # (B, H, m)
        num = fq @ kv
        den = np.einsum("bhqm,bhm->bhq", fq, z)
        return num / den[..., None]


def ledger_tokens(rows, dim, rng):
    """rows: list of (amount, weekday, account class) -> (1, n, dim)"""
    t = np.array([[np.sign(a) * np.log1p(abs(a)), d / 6, c / 9] for a, d, c in rows])
    return (t @ rng.standard_normal((3, dim)))[None]


def anomaly(rows, heads=2, dim=8, seed=1):
    """distance of each booking from its attention-smoothed neighbourhood"""
    rng = np.random.default_rng(seed)
    x = ledger_tokens(rows, heads * dim, rng)
    h = x.reshape(1, len(rows), heads, dim).transpose(0, 2, 1, 3)
    att = FavorAttention(dim, seed=seed)
    y = att(h, h, h)
    return np.sqrt(((h - y) ** 2).sum(-1)).mean(1)[0]


if __name__ == "__main__":
    book = [(-20.0, i % 7, 3) for i in range(40)] + [(90000.0, 6, 9)]
    print(anomaly(book).round(2)[-5:])
