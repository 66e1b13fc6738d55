import numpy as np


def decay_rates(n):
    """Geometric slopes; for n not a power of two the rest comes from the next larger set."""
    def pure(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]
    p = 1
    while p * 2 <= n:
        p *= 2
    return np.array(pure(p) + pure(2 * p)[0::2][: n - p])


def newest_first_mix(ask, keep, body):
    """Mix messages of a thread, old ones counting less.

    ask (B, N, T, d) belong to the last T of the S messages in keep, body (B, N, S, d).
    A message reads itself and everything before it; the penalty grows with the distance.
    """
    T, S, d = ask.shape[2], keep.shape[2], ask.shape[3]
    age = (np.arange(T) + S - T)[:, None] - np.arange(S)[None, :]
    s = np.einsum("bntd,bnsd->bnts", ask, keep) / d ** 0.5
    s = s - decay_rates(ask.shape[1])[:, None, None] * age
    s = np.where(age < 0, -np.inf, s)
    s = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bnts,bnsd->bntd", s, body) / s.sum(-1)[..., None]
