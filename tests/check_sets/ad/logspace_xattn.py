import numpy as np
from collections import namedtuple

Weights = namedtuple("Weights", "q k v o")


def log_attend(a, b, W, log_prior=None):
    """Cross attention a <- b computed in log space.

    a: (..., I, D)   b: (..., J, D)
    W.q, W.k, W.v: (H, D, E)   W.o: (H, E, D)
    log_prior: something that broadcasts to (..., H, I, J), log of a non-negative prior on the
        pairs; -inf rules a pair out, every row must allow a pair. It is not changed.

    returns (output, log_weights)
    """
    q = np.einsum("...id,hde->...hie", a, W.q)
    k = np.einsum("...jd,hde->...hje", b, W.k)
    v = np.einsum("...jd,hde->...hje", b, W.v)
    s = np.einsum("...hie,...hje->...hij", q, k) * W.q.shape[-1] ** -0.5
    if log_prior is not None:
        s = s + log_prior
    log_w = s - np.logaddexp.reduce(s, axis=-1, keepdims=True)
    y = np.einsum("...hij,...hje,hed->...id", np.exp(log_w), v, W.o)
    return y, log_w


def entropy(log_w):
    p = np.exp(log_w)
    return -np.sum(np.where(p > 0, p * np.where(p > 0, log_w, 0), 0), -1)
